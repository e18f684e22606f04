import type { Accounts } from './accounts.ts';
import { percentDecode } from './fault-rule.ts';
import { decodeForm, type Pair } from './form.ts';
import type { NonceMemory } from './nonces.ts';
import { VerificationError } from './rejections.ts';
import { acceptingKey, baseStringOf, type GatewayKeys, keyNames, type SignatureMethod } from './signature.ts';
import type { StepDetails, VerificationTrace } from './verification-trace.ts';

const required = [
  'oauth_consumer_key',
  'oauth_nonce',
  'oauth_signature_method',
  'oauth_timestamp',
  'oauth_version',
];

interface OAuthParameters {
  readonly consumerKey: string;
  readonly nonce: string;
  readonly method: string;
  readonly timestamp: string;
  readonly version: string;
  readonly signature: string;
}

/** docs/gateway-interface.md section 5.4: `name="value"`, a comma between two pairs, an optional space after the comma. */
const field = /([^\s"=,]+)="([^"]*)"(?:[ \t]*,[ \t]*|$)/gy;

/** A request as received. */
export interface RawRequest {
  /** Scheme, host and path, as RFC 5849 section 3.4.1.2 puts them into the base string. */
  readonly url: string;
  readonly hasQuery: boolean;
  readonly contentType: string | undefined;
  /** Every Authorization header. */
  readonly authorization: readonly string[];
  readonly body: Buffer;
  /** The decoded login, if the path contains one. */
  readonly pathLogin: string | undefined;
}

/** What the operation requires: its signature method, and where the request repeats the login. */
export interface Expectation {
  readonly signature: SignatureMethod;
  readonly loginFrom: 'path' | 'body' | 'header';
}

/** The state of the gateway for verification. */
export interface Verifier {
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  readonly timestampWindowSeconds: number;
  readonly nonces: NonceMemory;
  readonly accounts: Accounts;
}

/** A request that passed every check. */
interface Verified {
  readonly login: string;
  /** Index of the key that made the signature, in the login's list of that kind. */
  readonly keyIndex: number;
  /** The request's own parameters, without the OAuth ones. */
  readonly form: readonly Pair[];
}

/**
 * Verifies a request from its received bytes (docs/gateway-interface.md section 5, RFC 5849 section 3.2). Shares no step
 * with the proxy's signer. Records the nonce only if all other checks pass.
 *
 * @throws VerificationError of the first failed check
 */
export function verifyRequest(
  received: RawRequest,
  expected: Expectation,
  verifier: Verifier,
  trace: VerificationTrace,
): Verified {
  const parameters = trace.run('form', () => readBody(received));
  const form = parameters.filter((pair) => !isOAuth(pair));
  trace.form = form;
  const header = trace.run('authorization', () => parseAuthorization(received.authorization));
  const oauth = trace.run('oauth-parameters', () => agreedParameters(header, parameters));
  const login = oauth.consumerKey;
  trace.login = login;
  trace.run('method', (note) => checkMethod(oauth, expected, note));
  const timestamp = trace.run('timestamp', (note) => checkTimestamp(oauth.timestamp, verifier, note));
  const keys = trace.run('login', () => checkLogin(login, expected, received, form, verifier));
  const baseString = trace.run('base-string', (note) => noteBaseString(received.url, parameters, note));
  const keyIndex = trace.run('signature', (note) => {
    const names = keyNames(expected.signature, keys);
    note({ triedKeys: names });
    const index = acceptingKey(expected.signature, keys, baseString, oauth.signature);
    note({ key: names[index] });
    return index;
  });
  trace.run('nonce', () => recordNonce(login, oauth.nonce, timestamp, verifier));
  return { login, keyIndex, form };
}

type Note = (details: StepDetails) => void;

/** docs/gateway-interface.md section 4: a form, and no query in the URL. */
function readBody(received: RawRequest): Pair[] {
  if (received.hasQuery) throw new VerificationError('query-present');
  const mediaType = received.contentType?.split(';')[0]?.trim().toLowerCase();
  if (mediaType !== 'application/x-www-form-urlencoded') throw new VerificationError('content-type-wrong');
  return decodeForm(received.body);
}

function checkMethod({ version, method }: OAuthParameters, { signature }: Expectation, note: Note): void {
  note({ requiredMethod: signature, receivedMethod: method });
  if (version !== '1.0') throw new VerificationError('version-wrong');
  if (method !== signature) throw new VerificationError('method-wrong');
}

/** RFC 5849 section 3.3: a positive integer, in seconds. The size of the window is undocumented. */
function checkTimestamp(text: string, { clock, timestampWindowSeconds }: Verifier, note: Note): number {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw new VerificationError('timestamp-malformed');
  const now = Math.floor(clock() / 1000);
  const timestamp = Number(text);
  note({ timestamp, clock: now, windowSeconds: timestampWindowSeconds });
  const isNear = (seconds: number) => Math.abs(seconds - now) <= timestampWindowSeconds;
  if (isNear(timestamp)) return timestamp;
  throw new VerificationError(
    isNear(timestamp / 1000) ? 'timestamp-in-milliseconds' : 'timestamp-outside-window',
  );
}

/** @returns the keys of a login that the gateway knows, that is not blocked, and that the request repeats correctly */
function checkLogin(
  login: string,
  expected: Expectation,
  received: RawRequest,
  form: readonly Pair[],
  { accounts }: Verifier,
): GatewayKeys {
  if (!repeatsLogin(login, expected, received, form)) throw new VerificationError('login-mismatch');
  const keys = accounts.keysOf(login);
  if (keys === undefined) throw new VerificationError('login-unknown');
  if (accounts.isBlocked(login)) throw new VerificationError('login-blocked');
  return keys;
}

/** docs/gateway-interface.md sections 4.1 and 4.2: the consumer key is the manager login, or the value of `login`. */
function repeatsLogin(
  login: string,
  { loginFrom: from }: Expectation,
  received: RawRequest,
  form: readonly Pair[],
): boolean {
  if (from === 'header') return true;
  const inForm = form.filter(([name]) => name === 'login').map(([, value]) => value);
  const named = from === 'path' ? [received.pathLogin] : inForm;
  return named.length === 1 && named[0] === login;
}

function noteBaseString(url: string, parameters: readonly Pair[], note: Note): string {
  const baseString = baseStringOf(url, parameters);
  note({ baseString });
  return baseString;
}

function recordNonce(login: string, nonce: string, timestamp: number, verifier: Verifier): void {
  const expiry = timestamp + verifier.timestampWindowSeconds;
  const now = Math.floor(verifier.clock() / 1000);
  if (!verifier.nonces.remember(login, nonce, expiry, now)) throw new VerificationError('nonce-replayed');
}

/**
 * The parameters of `Authorization: OAuth ...` (RFC 5849 section 3.5.1), decoded, without `realm`, which is optional and
 * not part of the signature (section 3.4.1.3.1).
 *
 * @throws VerificationError `authorization-missing` or `authorization-malformed`.
 */
export function parseAuthorization(headers: readonly string[]): Pair[] {
  const [header, ...others] = headers;
  if (header === undefined) throw new VerificationError('authorization-missing');
  const [, text] = /^OAuth +(\S.*)$/i.exec(header) ?? malformed();
  if (text === undefined || text.endsWith(',') || others.length > 0) malformed();
  return fieldsOf(text)
    .filter(([name]) => name.toLowerCase() !== 'realm')
    .map(decodeField);
}

function fieldsOf(text: string): Pair[] {
  const found = [...text.matchAll(field)];
  const length = found.reduce((sum, [whole]) => sum + whole.length, 0);
  if (length !== text.length) malformed();
  return found.map(([, name = '', value = '']) => [name, value]);
}

function decodeField([name, value]: Pair): Pair {
  return [percentDecode(name) ?? malformed(), percentDecode(value) ?? malformed()];
}

function malformed(): never {
  throw new VerificationError('authorization-malformed');
}

/**
 * The same five parameters with the same values in header and body, the signature only in the header, and no other OAuth
 * parameter (docs/gateway-interface.md section 5.4).
 *
 * @throws VerificationError `oauth-parameter-...` or `header-body-mismatch`.
 */
function agreedParameters(header: readonly Pair[], body: readonly Pair[]): OAuthParameters {
  const inHeader = onceEach([...required, 'oauth_signature'], header);
  const inBody = onceEach(required, body.filter(isOAuth));
  const different = required.find((name) => valueOf(inHeader, name) !== valueOf(inBody, name));
  if (different !== undefined) throw new VerificationError('header-body-mismatch', different);
  return {
    consumerKey: valueOf(inHeader, 'oauth_consumer_key'),
    nonce: valueOf(inHeader, 'oauth_nonce'),
    method: valueOf(inHeader, 'oauth_signature_method'),
    timestamp: valueOf(inHeader, 'oauth_timestamp'),
    version: valueOf(inHeader, 'oauth_version'),
    signature: valueOf(inHeader, 'oauth_signature'),
  };
}

function isOAuth([name]: Pair): boolean {
  return name.startsWith('oauth_');
}

/** RFC 5849 section 3.1: "Each parameter MUST NOT appear more than once per request." */
function onceEach(names: readonly string[], pairs: readonly Pair[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [name, value] of pairs) {
    if (!names.includes(name)) throw new VerificationError('oauth-parameter-unexpected', name);
    if (found.has(name)) throw new VerificationError('oauth-parameter-repeated', name);
    found.set(name, value);
  }
  return found;
}

function valueOf(parameters: ReadonlyMap<string, string>, name: string): string {
  const value = parameters.get(name);
  if (value === undefined) throw new VerificationError('oauth-parameter-missing', name);
  return value;
}
