import { JwtError } from './jwt-error.ts';

const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:]/g;

export type Claims = Readonly<Record<string, unknown>>;

export interface ParsedToken {
  readonly keyId: string | undefined;
  /** Not verified. */
  readonly claims: Claims;
}

/** Characters. A service-account token has about 1,000; one with many groups about 4,000. */
const maxLength = 8192;
const maxDepth = 8;
const maxKeyIdLength = 256;

/**
 * Header members that name a key, change what is signed, or announce another content (RFC 7515 section 4.1, RFC 7516
 * section 4.1, RFC 7797). None of them is ever looked at or fetched.
 */
const forbiddenMembers: readonly string[] = [
  'jwk',
  'jku',
  'x5u',
  'x5c',
  'crit',
  'b64',
  'cty',
  'enc',
  'zip',
  'epk',
];
/** Other types, such as logout tokens, are no credentials (RFC 8725 section 3.11). */
const types: ReadonlySet<unknown> = new Set([
  undefined,
  'jwt',
  'at+jwt',
  'application/jwt',
  'application/at+jwt',
]);

/** Whether a bearer token is meant as a JWT: parts that are joined by dots. Our own tokens have none. */
export function looksLikeJwt(token: string): boolean {
  return token.includes('.');
}

/**
 * Splits a signed JWT in compact form (RFC 7515 section 3.1) and checks its structure, but not its signature.
 *
 * @throws JwtError
 */
export function parseToken(token: string): ParsedToken {
  if (token.length > maxLength) throw new JwtError('jwt-malformed');
  const parts = token.split('.');
  const [header, payload, signature] = parts.map(decode);
  if (parts.length !== 3 || signature === undefined || signature.length === 0) {
    throw new JwtError('jwt-malformed');
  }
  const keyId = checkHeader(parseObject(header));
  return { keyId, claims: parseObject(payload) };
}

/** @returns the key ID, if there is one */
function checkHeader(header: Claims): string | undefined {
  const { kid, typ } = header;
  if (forbiddenMembers.some((name) => Object.hasOwn(header, name))) throw new JwtError('jwt-header');
  if (!types.has(typeof typ === 'string' ? typ.toLowerCase() : typ)) throw new JwtError('jwt-header');
  if (kid !== undefined && (typeof kid !== 'string' || kid.length > maxKeyIdLength)) {
    throw new JwtError('jwt-header');
  }
  return kid;
}

/** Unlike Node's own decoder, rejects what is not the one form that encodes these bytes. */
function decode(part: string): Buffer | undefined {
  const bytes = Buffer.from(part, 'base64url');
  return bytes.toString('base64url') === part ? bytes : undefined;
}

function parseObject(bytes: Buffer | undefined): Claims {
  const text = bytes === undefined ? undefined : textOf(bytes);
  const value = text === undefined ? undefined : parseStrictJson(text, maxDepth);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new JwtError('jwt-malformed');
  }
  return { ...value };
}

function textOf(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Parses JSON whose objects contain no name twice: `JSON.parse` takes the last one, and who made the token may have
 * meant the first (RFC 7515 section 4, RFC 7519 section 4).
 *
 * @returns `undefined` for invalid JSON, a name that occurs twice, and deeper nesting
 */
export function parseStrictJson(text: string, maxDepth: number): unknown {
  try {
    // Parsed first: the check takes quadratic time for some texts that are not JSON.
    const value: unknown = JSON.parse(text);
    return isStrict(text, maxDepth) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** For valid JSON. Of invalid JSON it says nothing. */
function isStrict(text: string, maxDepth: number): boolean {
  /** The names so far of each open object; `undefined` for a list. */
  const open: (Set<string> | undefined)[] = [];
  let last = '';
  for (const [token] of text.matchAll(tokens)) {
    if (token === '{' || token === '[') open.push(token === '{' ? new Set() : undefined);
    else if (token === '}' || token === ']') open.pop();
    else if (token !== ':') last = token;
    else {
      // Compared without escapes: "\u0065xp" is "exp".
      const name: string = JSON.parse(last);
      const names = open.at(-1);
      if (names?.has(name)) return false;
      names?.add(name);
    }
    if (open.length > maxDepth) return false;
  }
  return true;
}
