/**
 * RFC 5849 section 3.6: every byte of the UTF-8 text becomes `%XX` in upper case, except unreserved characters.
 * `encodeURIComponent` also leaves `!'()*` as they are, which are reserved in RFC 3986 section 2.2.
 *
 * @throws URIError for a lone surrogate, which has no UTF-8 encoding
 */
export function percentEncode(text: string): string {
  // Most names and values are of unreserved characters only, and a test costs less than a copy.
  if (/^[\w.~-]*$/.test(text)) return text;
  return encodeURIComponent(text).replace(/[!'()*]/g, percentOctet);
}

/** `%XX` for each octet. */
const escapes: readonly string[] = Array.from(
  { length: 256 },
  (_, octet) => `%${octet.toString(16).toUpperCase().padStart(2, '0')}`,
);

/** Encodes one octet as `%XX`. It is given as a character from U+0000 to U+00FF. */
export function percentOctet(character: string): string {
  return escapes[character.charCodeAt(0)] ?? '';
}
