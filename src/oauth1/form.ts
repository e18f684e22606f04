import { Refusal } from '../errors.ts';
import type { Pair } from './parameters.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const percent = 0x25;
const plus = 0x2b;
const space = 0x20;

/**
 * Decodes a form (WHATWG URL, `application/x-www-form-urlencoded`) to its pairs, strictly: what a lenient
 * decoder would guess at is refused, because the gateway might guess differently. Order, duplicates, empty
 * names and empty values are kept; a part without `=` has an empty value; an empty part is no pair.
 *
 * @throws Refusal `malformed-form` for `%` without two hex digits and for bytes that are not UTF-8; the text
 * names the parameter by its position only, since its content may be card data.
 */
export function decodeForm(body: Buffer): Pair[] {
  const parts = body.length === 0 ? [] : body.toString('latin1').split('&');
  return parts.flatMap((part, index): Pair[] => {
    if (part === '') return [];
    const equals = part.indexOf('=');
    const name = equals === -1 ? part : part.slice(0, equals);
    const value = equals === -1 ? '' : part.slice(equals + 1);
    return [[decodeText(name, index), decodeText(value, index)]];
  });
}

/** `latin1` is one character a byte of the body. */
function decodeText(latin1: string, index: number): string {
  if (/^[\w.~*-]*$/.test(latin1)) return latin1;
  const bytes = Buffer.from(latin1, 'latin1');
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte === percent) {
      bytes[length] = hexByte(latin1.slice(at + 1, at + 3), index);
      at += 2;
    } else {
      bytes[length] = byte === plus ? space : byte;
    }
    length += 1;
  }
  try {
    return utf8.decode(bytes.subarray(0, length));
  } catch {
    throw new Refusal('malformed-form', `Parameter ${index + 1} is not valid UTF-8. Send the form as UTF-8.`);
  }
}

function hexByte(digits: string, index: number): number {
  if (!/^[0-9A-Fa-f]{2}$/.test(digits)) {
    throw new Refusal(
      'malformed-form',
      `Parameter ${index + 1} has a "%" without two hexadecimal digits after it. Write a literal "%" as "%25".`,
    );
  }
  return Number.parseInt(digits, 16);
}
