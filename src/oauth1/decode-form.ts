import { ProxyError } from '../errors.ts';
import { shownName } from '../identifiers.ts';
import { percentOctet } from './encode.ts';
import type { Pair } from './parameters.ts';

/** As latin1: one character for each of its bytes. */
const byteOrderMark = '\xef\xbb\xbf';

/**
 * Decodes a form (WHATWG URL, `application/x-www-form-urlencoded`) to its pairs. Strict, because a lenient decoder
 * guesses, and the gateway might guess differently. Order, duplicates, empty names and empty values are kept. A part
 * without `=` has an empty value; an empty part is skipped.
 *
 * No encoder of forms leaves a control character as it is, or writes a byte order mark. A file of a form has them: the line
 * feed at its end would become part of an order ID.
 *
 * @throws ProxyError `malformed-form` for a control character or a leading byte order mark that is not encoded, for `%`
 *   without two hex digits, and for bytes that are not UTF-8. The detail identifies a parameter by its position, and by
 *   its name only if that is a plain word, since anything else may be card data
 */
export function decodeForm(body: Buffer): Pair[] {
  const form = body.toString('latin1');
  if (form.startsWith(byteOrderMark)) throw new ProxyError('malformed-form', markedForm);
  const pairs: Pair[] = [];
  for (const part of form.split('&')) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const name = decodeText(equals === -1 ? part : part.slice(0, equals));
    const value = equals === -1 ? '' : decodeText(part.slice(equals + 1));
    if (name === undefined || value === undefined) throw malformed(part, pairs.length + 1);
    pairs.push([name, value]);
  }
  return pairs;
}

const markedForm =
  'The form begins with a byte order mark. Send it without one, or as %EF%BB%BF if it belongs to a name.';

/**
 * Bytes that are not ASCII are escaped first, so that `decodeURIComponent` checks that all bytes are valid UTF-8.
 *
 * @param latin1 one character per byte of the body
 * @returns `undefined` if it cannot be decoded
 */
function decodeText(latin1: string): string | undefined {
  // Most names and values have nothing to decode, and a test costs less than a copy.
  if (/^[ -$&-*,-~]*$/.test(latin1)) return latin1;
  if (control.test(latin1)) return undefined;
  try {
    return decodeURIComponent(latin1.replaceAll('+', ' ').replace(/[\x80-\xff]/g, percentOctet));
  } catch {
    return undefined;
  }
}

/** In a text of latin1. */
const control = /[^ -~\x80-\xff]/;

function malformed(part: string, position: number): ProxyError {
  // Without a value it is as likely a piece of one in which "&" was not encoded.
  const name = part.includes('=') ? shownName(part.slice(0, part.indexOf('='))) : '';
  return new ProxyError('malformed-form', `Parameter ${position}${name} ${problemOf(part)}`);
}

function problemOf(part: string): string {
  const character = control.exec(part)?.[0];
  if (character !== undefined) {
    const problem = `has a control character that is not encoded. If it belongs to the form, write ${percentOctet(character)}.`;
    return `${problem}${usualCauses.get(character) ?? ''}`;
  }
  return /%(?![0-9A-Fa-f]{2})/.test(part)
    ? 'has a "%" that is not followed by two hexadecimal digits. Write a literal "%" as "%25".'
    : 'is not valid UTF-8. Send the form as UTF-8.';
}

const sentFile =
  ' curl --data-binary @FILE also sends the line break at the end of a file: use --data @FILE.';

/** Of a control character in a form. */
const usualCauses: ReadonlyMap<string, string> = new Map([
  ['\n', sentFile],
  ['\r', sentFile],
  ['\0', ' UTF-16 text has many: send the form as UTF-8.'],
]);
