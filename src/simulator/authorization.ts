import type { Pair } from './form.ts';
import { percentDecode } from './percent.ts';
import { VerificationError } from './verification-error.ts';

/** docs/gateway-interface.md section 5.4: `name="value"`, a comma between two pairs, an optional space after the comma. */
const field = /([^\s"=,]+)="([^"]*)"(?:[ \t]*,[ \t]*|$)/gy;

/**
 * The parameters of `Authorization: OAuth ...` (RFC 5849 section 3.5.1), decoded, without `realm`, which is optional and
 * not part of the signature (section 3.4.1.3.1).
 *
 * @throws VerificationError `authorization-missing` or `authorization-malformed`.
 */
export function parseAuthorization(headers: readonly string[]): Pair[] {
  const [header, ...others] = headers;
  if (header === undefined) throw new VerificationError('authorization-missing');
  const [, text] = /^OAuth +(\S.*)$/i.exec(header) ?? malformed();
  if (text === undefined || text.endsWith(',') || others.length > 0) malformed();
  return fieldsOf(text)
    .filter(([name]) => name.toLowerCase() !== 'realm')
    .map(decodeField);
}

function fieldsOf(text: string): Pair[] {
  const found = [...text.matchAll(field)];
  const length = found.reduce((sum, [whole]) => sum + whole.length, 0);
  if (length !== text.length) malformed();
  return found.map(([, name = '', value = '']) => [name, value]);
}

function decodeField([name, value]: Pair): Pair {
  return [percentDecode(name) ?? malformed(), percentDecode(value) ?? malformed()];
}

function malformed(): never {
  throw new VerificationError('authorization-malformed');
}
