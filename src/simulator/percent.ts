const unreserved = /[A-Za-z0-9._~-]/;

/** RFC 3986 section 2.1: the encoding of each octet; unreserved characters (section 2.3) stay as they are. */
const octets: readonly string[] = Array.from({ length: 256 }, (_, octet) => {
  const character = String.fromCharCode(octet);
  return unreserved.test(character) ? character : `%${octet.toString(16).toUpperCase().padStart(2, '0')}`;
});

/** RFC 5849 section 3.6, octet by octet of the UTF-8 text. Independent of the proxy's encoder. */
export function percentEncode(text: string): string {
  let encoded = '';
  for (const octet of Buffer.from(text, 'utf8')) encoded += octets[octet] ?? '';
  return encoded;
}

/**
 * The strict reverse: accepts only unreserved characters and `%XX` in either case (RFC 3986 section 2.1). `undefined` for
 * anything else, such as `+`, and for bytes that are not UTF-8.
 */
export function percentDecode(encoded: string): string | undefined {
  if (!/^(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})*$/.test(encoded)) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}
