import { VerificationError } from './verification-error.ts';

/** One decoded parameter. A form is a list of them, with order, duplicates and empty values kept. */
export type Pair = readonly [name: string, value: string];

const ampersand = 0x26;
const equals = 0x3d;
const percent = 0x25;
const plus = 0x2b;
const space = 0x20;
const lastPrintable = 0x7e;

/**
 * Decodes a form octet by octet (HTML 4.01 section 17.13.4.1, with UTF-8). Shares no code with the proxy, whose mistakes it
 * has to find, and accepts only what an encoder writes. A parameter without `=` has an empty value, as `c2` in RFC 5849
 * section 3.4.1.3.1.
 *
 * @throws VerificationError `body-malformed` for `%` without two hexadecimal digits, an octet that is not printable ASCII,
 *   text that is not UTF-8, or an empty parameter as in `a=1&&b=2`
 */
export function decodeForm(body: Uint8Array): Pair[] {
  return body.length === 0 ? [] : partsOf(body).map(decodePair);
}

function partsOf(body: Uint8Array): Uint8Array[] {
  const parts: Uint8Array[] = [];
  let start = 0;
  for (let end = body.indexOf(ampersand); end !== -1; end = body.indexOf(ampersand, start)) {
    parts.push(body.subarray(start, end));
    start = end + 1;
  }
  return [...parts, body.subarray(start)];
}

function decodePair(part: Uint8Array): Pair {
  if (part.length === 0) malformed();
  const at = part.indexOf(equals);
  if (at === -1) return [decodeText(part), ''];
  return [decodeText(part.subarray(0, at)), decodeText(part.subarray(at + 1))];
}

function decodeText(encoded: Uint8Array): string {
  const octets: number[] = [];
  for (let at = 0; at < encoded.length; at += 1) {
    const octet = encoded[at] ?? malformed();
    if (octet <= space || octet > lastPrintable) malformed();
    octets.push(
      octet === plus ? space : octet === percent ? octetOf(encoded.subarray(at + 1, at + 3)) : octet,
    );
    if (octet === percent) at += 2;
  }
  try {
    // A byte order mark is part of the text: the signer has signed it.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(octets));
  } catch {
    return malformed();
  }
}

/** RFC 3986 section 2.1: two hexadecimal digits in either case. */
function octetOf(digits: Uint8Array): number {
  const text = String.fromCharCode(...digits);
  return /^[0-9A-Fa-f]{2}$/.test(text) ? Number.parseInt(text, 16) : malformed();
}

function malformed(): never {
  throw new VerificationError('body-malformed');
}
