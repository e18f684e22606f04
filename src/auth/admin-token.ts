import { timingSafeEqual } from 'node:crypto';
import { bearerToken, tokenDigest } from './bearer-token.ts';

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
