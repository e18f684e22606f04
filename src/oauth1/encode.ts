/**
 * RFC 5849 section 3.6: unreserved characters stay bare, every other byte of the UTF-8 text becomes `%XX` in
 * upper case. `encodeURIComponent` leaves `!'()*` bare as well, which RFC 3986 section 2.3 does not.
 *
 * @throws URIError for a lone surrogate, which has no UTF-8 form.
 */
export function percentEncode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, percentOctet);
}

/** One octet, given as a character below U+0100 and not a control character, as `%XX`. */
export function percentOctet(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}
