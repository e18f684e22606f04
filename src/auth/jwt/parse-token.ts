import { isUtf8 } from 'node:buffer';
import { isDeepStrictEqual } from 'node:util';
import { parseJson } from '../../util/text.ts';
import { JwtError } from './jwt-error.ts';

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

/**
 * Parses JSON whose objects contain no name twice: `JSON.parse` takes the last one, and who made the token may have
 * meant the first (RFC 7515 section 4, RFC 7519 section 4). Then the text has a name more often than the value. So it has
 * where V8 reads an escaped name as another one, after it parsed certain other texts (nodejs/node issue 63785).
 *
 * @returns `undefined` for invalid JSON, a name that occurs twice, and deeper nesting
 */
export function parseStrictJson(text: string, maxDepth: number): unknown {
  const value = parseJson(text);
  // Only of JSON: of other texts it can take quadratic time.
  const names = value === undefined ? undefined : namesIn(value, maxDepth);
  if (names === undefined) return undefined;
  return isDeepStrictEqual(names.sort(), writtenNames(text).sort()) ? value : undefined;
}

/** The names of the members of all objects in a value; `undefined` if it is nested deeper. */
function namesIn(value: unknown, maxDepth: number): string[] | undefined {
  if (typeof value !== 'object' || value === null) return [];
  if (maxDepth === 0) return undefined;
  const inner = Object.values(value).map((one) => namesIn(one, maxDepth - 1));
  const all = inner.filter((names) => names !== undefined);
  return all.length < inner.length
    ? undefined
    : [Array.isArray(value) ? [] : Object.keys(value), ...all].flat();
}

/** The names in JSON as it is written, each decoded by itself: "\u0065xp" is "exp". */
function writtenNames(text: string): string[] {
  const strings = text.matchAll(/("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?/g);
  return Array.from(strings).flatMap(([, name = '', colon]) =>
    colon === undefined ? [] : [JSON.parse(name)],
  );
}
