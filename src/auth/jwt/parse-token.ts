import { isUtf8 } from 'node:buffer';
import { JwtError } from './jwt-error.ts';
import { parseStrictJson } from './strict-json.ts';

export type Claims = Readonly<Record<string, unknown>>;

/** Characters. A service-account token has about 1,000; one with many groups about 4,000. */
const maxLength = 8192;
const maxDepth = 8;
const maxKeyIdLength = 256;

/**
 * Header members that name a key, change what is signed, or announce another content (RFC 7515 section 4.1, RFC 7516
 * section 4.1, RFC 7797). None of them is ever looked at or fetched.
 */
const forbiddenMembers = ['jwk', 'jku', 'x5u', 'x5c', 'crit', 'b64', 'cty', 'enc', 'zip', 'epk'];
/** Other types, such as logout tokens, are no credentials (RFC 8725 section 3.11). */
const types = new Set<unknown>([undefined, 'jwt', 'at+jwt', 'application/jwt', 'application/at+jwt']);

/** Whether a bearer token is meant as a JWT: parts that are joined by dots. Our own tokens have none. */
export function looksLikeJwt(token: string): boolean {
  return token.includes('.');
}

/**
 * Splits a signed JWT in compact form (RFC 7515 section 3.1) and checks its structure, but not its signature.
 *
 * @returns its claims, which are not verified
 * @throws JwtError
 */
export function parseToken(token: string): Claims {
  if (token.length > maxLength) throw new JwtError('jwt-malformed');
  const parts = token.split('.');
  const [header, payload, signature] = parts.map(decode);
  if (parts.length !== 3 || signature === undefined || signature.length === 0) {
    throw new JwtError('jwt-malformed');
  }
  checkHeader(parseObject(header));
  return parseObject(payload);
}

function checkHeader(header: Claims): void {
  const { kid = '', typ } = header;
  if (forbiddenMembers.some((name) => Object.hasOwn(header, name))) throw new JwtError('jwt-header');
  if (!types.has(typeof typ === 'string' ? typ.toLowerCase() : typ)) throw new JwtError('jwt-header');
  if (typeof kid !== 'string' || kid.length > maxKeyIdLength) throw new JwtError('jwt-header');
}

/** Unlike Node's own decoder, rejects what is not the one form that encodes these bytes. */
function decode(part: string): Buffer | undefined {
  const bytes = Buffer.from(part, 'base64url');
  return bytes.toString('base64url') === part ? bytes : undefined;
}

function parseObject(bytes: Buffer | undefined): Claims {
  const value = bytes && isUtf8(bytes) ? parseStrictJson(bytes.toString(), maxDepth) : undefined;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new JwtError('jwt-malformed');
  }
  return { ...value };
}
