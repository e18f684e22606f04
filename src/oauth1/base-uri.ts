/**
 * RFC 5849 section 3.4.1.2: scheme and host in lower case, the port only if it is not the scheme's default, no query
 * and no fragment. `URL` takes care of the first two.
 *
 * @throws TypeError if `url` is not an http or https URL
 */
export function baseStringUri(url: URL): string {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new TypeError(`cannot sign a ${url.protocol} URL`);
  }
  return `${url.protocol}//${url.host}${url.pathname}`;
}
