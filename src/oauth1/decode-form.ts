import { ProxyError } from '../errors.ts';
import { percentOctet } from './encode.ts';
import type { Pair } from './parameters.ts';

/**
 * Decodes a form (WHATWG URL, `application/x-www-form-urlencoded`) to its pairs. Strict, because a lenient decoder
 * guesses, and the gateway might guess differently. Order, duplicates, empty names and empty values are kept. A part
 * without `=` has an empty value; an empty part is skipped.
 *
 * @throws ProxyError `malformed-form` for `%` without two hex digits and for bytes that are not UTF-8. The detail
 *   identifies a parameter by its position only, since its content may be card data
 */
export function decodeForm(body: Buffer): Pair[] {
  const pairs: Pair[] = [];
  body
    .toString('latin1')
    .split('&')
    .forEach((part, index) => {
      if (part === '') return;
      const equals = part.indexOf('=');
      const name = equals === -1 ? part : part.slice(0, equals);
      const value = equals === -1 ? '' : part.slice(equals + 1);
      pairs.push([decodeText(name, index), decodeText(value, index)]);
    });
  return pairs;
}

/**
 * Bytes that are not ASCII are escaped first, so that `decodeURIComponent` checks that all bytes are valid UTF-8.
 *
 * @param latin1 one character per byte of the body
 */
function decodeText(latin1: string, index: number): string {
  // Most names and values have nothing to decode, and a test costs less than a copy.
  if (!/[%+\x80-\xff]/.test(latin1)) return latin1;
  try {
    return decodeURIComponent(latin1.replaceAll('+', ' ').replace(/[\x80-\xff]/g, percentOctet));
  } catch {
    throw new ProxyError('malformed-form', `Parameter ${index + 1} ${problemOf(latin1)}`);
  }
}

function problemOf(latin1: string): string {
  return /%(?![0-9A-Fa-f]{2})/.test(latin1)
    ? 'has a "%" that is not followed by two hexadecimal digits. Write a literal "%" as "%25".'
    : 'is not valid UTF-8. Send the form as UTF-8.';
}
