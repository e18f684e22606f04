import { VerificationError } from './rejections.ts';

/** One decoded parameter. A form is a list of them, with order, duplicates and empty values kept. */
export type Pair = readonly [name: string, value: string];

const percent = 0x25;
const plus = 0x2b;
const space = 0x20;
const lastPrintable = 0x7e;

/** A byte order mark is part of the text: the signer has signed it. */
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Decodes a form octet by octet (HTML 4.01 section 17.13.4.1, with UTF-8). Shares no code with the proxy, whose mistakes it
 * has to find, and accepts only what an encoder writes. A parameter without `=` has an empty value, as `c2` in RFC 5849
 * section 3.4.1.3.1.
 *
 * @throws VerificationError `body-malformed` for `%` without two hexadecimal digits, an octet that is not printable ASCII,
 *   text that is not UTF-8, or an empty parameter as in `a=1&&b=2`
 */
export function decodeForm(body: Uint8Array): Pair[] {
  const text = Buffer.from(body).toString('latin1');
  return text === '' ? [] : text.split('&').map(decodePair);
}

/** @param part one character for each octet, here and below */
function decodePair(part: string): Pair {
  if (part === '') malformed();
  const at = part.indexOf('=');
  if (at === -1) return [decodeText(part), ''];
  return [decodeText(part.slice(0, at)), decodeText(part.slice(at + 1))];
}

function decodeText(encoded: string): string {
  if (/^[!-$&-*,-~]*$/.test(encoded)) return encoded;
  const octets = Buffer.alloc(encoded.length);
  let length = 0;
  for (let at = 0; at < encoded.length; at += 1) {
    const octet = encoded.charCodeAt(at);
    if (octet <= space || octet > lastPrintable) malformed();
    octets[length] =
      octet === plus ? space : octet === percent ? octetOf(encoded.slice(at + 1, at + 3)) : octet;
    length += 1;
    if (octet === percent) at += 2;
  }
  try {
    return strictUtf8.decode(octets.subarray(0, length));
  } catch {
    return malformed();
  }
}

/** RFC 3986 section 2.1: two hexadecimal digits in either case. */
function octetOf(digits: string): number {
  return /^[0-9A-Fa-f]{2}$/.test(digits) ? Number.parseInt(digits, 16) : malformed();
}

function malformed(): never {
  throw new VerificationError('body-malformed');
}
