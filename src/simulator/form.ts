import { VerificationError } from './rejections.ts';

/** One decoded parameter. A form is a list of them, with order, duplicates and empty values kept. */
export type Pair = readonly [name: string, value: string];

/** A byte order mark is part of the text: the signer has signed it. */
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Decodes a form (HTML 4.01 section 17.13.4.1, with UTF-8). Shares no code with the proxy, whose mistakes it has to find, and
 * accepts only what an encoder writes. A parameter without `=` has an empty value, as `c2` in RFC 5849 section 3.4.1.3.1.
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
  if (/[^!-~]|%(?![0-9A-Fa-f]{2})/.test(encoded)) malformed();
  if (!/[%+]/.test(encoded)) return encoded;
  const octets = encoded
    .replaceAll('+', ' ')
    .replace(/%(..)/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
  try {
    return strictUtf8.decode(Buffer.from(octets, 'latin1'));
  } catch {
    return malformed();
  }
}

function malformed(): never {
  throw new VerificationError('body-malformed');
}

/** RFC 5849 section 3.6, octet by octet of the UTF-8 text. Independent of the proxy's encoder. */
export function percentEncode(text: string): string {
  const octets = Buffer.from(text).toString('latin1');
  return octets.replace(
    /[^A-Za-z0-9._~-]/g,
    (octet) => `%${octet.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
  );
}

/**
 * The strict reverse: accepts only unreserved characters and `%XX` in either case (RFC 3986 section 2.1). `undefined` for
 * anything else, such as `+`, and for bytes that are not UTF-8.
 */
export function percentDecode(encoded: string): string | undefined {
  if (/[^A-Za-z0-9._~%-]/.test(encoded)) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}
