import { hash, timingSafeEqual } from 'node:crypto';

/**
 * The token of an `Authorization` header (RFC 6750 section 2.1). `undefined` for no header and for another scheme;
 * without `token` if what follows the scheme is not a token.
 */
export function bearerToken(authorization = ''): { readonly token?: string } | undefined {
  const token = /^Bearer +([\w.~+/-]+=*) *$/i.exec(authorization)?.[1];
  if (token !== undefined) return { token };
  return /^Bearer\b/i.test(authorization) ? {} : undefined;
}

/** The first 8 hex digits of a token's digest: enough to find it in the configuration, too few to guess it. */
export function shortHash(digest: string): string {
  return digest.slice(0, 8);
}

/** What the configuration has as `tokenSha256`, in hex. */
export function tokenDigest(token: string): string {
  return hash('sha256', token);
}

/**
 * Whether an `Authorization` header has the token with this digest: as a bearer token, or, for browsers, as the password
 * of HTTP Basic (RFC 7617) with any user name. Compares in constant time.
 *
 * @param tokenSha256 64 lowercase hex digits
 */
export function presentsToken(authorization: string | undefined, tokenSha256: string): boolean {
  const token = bearerToken(authorization)?.token ?? basicPassword(authorization);
  return token !== undefined && timingSafeEqual(Buffer.from(tokenDigest(token)), Buffer.from(tokenSha256));
}

/** Everything after the first colon: a user name has none. */
function basicPassword(authorization = ''): string | undefined {
  const encoded = /^Basic +([A-Za-z0-9+/]+=*) *$/i.exec(authorization)?.[1];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  return colon < 0 ? undefined : text.slice(colon + 1);
}
