import { hash } from 'node:crypto';

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
