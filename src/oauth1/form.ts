import { ProxyError } from '../errors.ts';
import { percentOctet } from './encode.ts';
import type { Pair } from './parameters.ts';

/**
 * Decodes a form (WHATWG URL, `application/x-www-form-urlencoded`) to its pairs, strictly: what a lenient
 * decoder would guess at is refused, because the gateway might guess differently. Order, duplicates, empty
 * names and empty values are kept; a part without `=` has an empty value; an empty part is no pair.
 *
 * @throws Refusal `malformed-form` for `%` without two hex digits and for bytes that are not UTF-8; the text
 * names the parameter by its position between the `&`s only, since its content may be card data.
 */
export function decodeForm(body: Buffer): Pair[] {
  return body
    .toString('latin1')
    .split('&')
    .flatMap((part, index): Pair[] => {
      if (part === '') return [];
      const equals = part.indexOf('=');
      const name = equals === -1 ? part : part.slice(0, equals);
      const value = equals === -1 ? '' : part.slice(equals + 1);
      return [[decodeText(name, index), decodeText(value, index)]];
    });
}

/**
 * `latin1` is one character a byte of the body. Bytes that came unescaped are escaped first, so that
 * `decodeURIComponent`, which accepts nothing but well-formed UTF-8, sees every one of them.
 */
function decodeText(latin1: string, index: number): string {
  try {
    return decodeURIComponent(latin1.replaceAll('+', ' ').replace(/[\x80-\xff]/g, percentOctet));
  } catch {
    throw new ProxyError('malformed-form', `Parameter ${index + 1} ${problemOf(latin1)}`);
  }
}

function problemOf(latin1: string): string {
  return /%(?![0-9A-Fa-f]{2})/.test(latin1)
    ? 'has a "%" without two hexadecimal digits after it. Write a literal "%" as "%25".'
    : 'is not valid UTF-8. Send the form as UTF-8.';
}
