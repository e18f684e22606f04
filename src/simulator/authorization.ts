import type { Pair } from '../oauth1/parameters.ts';
import { percentDecode } from './percent.ts';
import { Rejected } from './rejection.ts';

/** Interface section 5.4: `name="value"`, a comma between two pairs, an optional space after the comma. */
const field = /([^\s"=,]+)="([^"]*)"(?:[ \t]*,[ \t]*|$)/y;

/**
 * The parameters of `Authorization: OAuth ...` (RFC 5849 section 3.5.1), decoded, without `realm`, which is
 * optional and no part of the signature (section 3.4.1.3.1).
 *
 * @throws Rejected `authorization-missing` or `authorization-malformed`.
 */
export function parseAuthorization(headers: readonly string[]): Pair[] {
  const [header, ...others] = headers;
  if (header === undefined) throw new Rejected('authorization-missing');
  const scheme = /^OAuth +(?=\S)/i.exec(header);
  if (scheme === null || others.length > 0 || header.endsWith(',')) malformed();
  const fields = readFields(header, scheme[0].length);
  return fields.filter(([name]) => name.toLowerCase() !== 'realm').map(decodeField);
}

function readFields(header: string, start: number): Pair[] {
  const fields: Pair[] = [];
  let at = start;
  while (at < header.length) {
    field.lastIndex = at;
    const [whole, name, value] = field.exec(header) ?? malformed();
    if (whole === undefined || name === undefined || value === undefined) malformed();
    fields.push([name, value]);
    at += whole.length;
  }
  return fields;
}

function decodeField([name, value]: Pair): Pair {
  return [percentDecode(name) ?? malformed(), percentDecode(value) ?? malformed()];
}

function malformed(): never {
  throw new Rejected('authorization-malformed');
}
