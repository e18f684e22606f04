import type { Request } from 'express';
import type { Operation } from '../gateway/operations.ts';
import { verifyControl } from './control.ts';
import { decodeForm, type Pair, percentDecode } from './form.ts';
import type { VerificationTrace } from './journal.ts';
import { VerificationError } from './rejections.ts';
import { acceptingKey, baseStringOf, baseUrlOf, keyNames } from './signature.ts';
import type { SimulatorState } from './state.ts';

const inBoth = ['consumer_key', 'nonce', 'signature_method', 'timestamp', 'version'].map(
  (name) => `oauth_${name}`,
);
const inHeaderOnly = 'oauth_signature';

/** docs/gateway-interface.md section 5.4: `name="value"`, a comma between two pairs, an optional space after the comma. */
const field = /([^\s"=,]+)="([^"]*)"(?:[ \t]*,[ \t]*|$)/gy;

export type ReceivedRequest = ReturnType<typeof receivedFrom>;

/** The request as received: raw target, raw body, every Authorization header. */
export function receivedFrom(request: Request) {
  const [path = '', ...query] = request.originalUrl.split('?');
  const body: unknown = request.body;
  const segments = Object.entries(request.params).map(([name, value]) => [name, String(value)] as const);
  return {
    /** Scheme, host and path, as RFC 5849 section 3.4.1.2 puts them into the base string. */
    url: baseUrlOf(request.protocol, request.headers.host ?? '', path),
    hasQuery: query.length > 0,
    contentType: request.headers['content-type'],
    authorization: request.headersDistinct['authorization'] ?? [],
    body: Buffer.isBuffer(body) ? body : Buffer.alloc(0),
    /** The variable segments of the path, decoded. */
    path: Object.fromEntries(segments),
  };
}

/**
 * Verifies a request from its received bytes (docs/gateway-interface.md section 5, RFC 5849 section 3.2). Shares no step
 * with the proxy's signer. Records the nonce only if all other checks pass.
 *
 * @throws VerificationError of the first failed check
 */
export function verifyRequest(
  received: ReceivedRequest,
  expected: Operation,
  state: SimulatorState,
  trace: VerificationTrace,
) {
  trace.begin('form');
  const parameters = readBody(received);
  if (expected.signature === 'SHA1-control')
    return verifyControl(received.path, expected, state, trace, parameters);
  const form = parameters.filter((pair) => !isOAuth(pair));
  trace.form = form;
  trace.begin('authorization');
  const header = parseAuthorization(received.authorization);
  trace.begin('oauth-parameters');
  const oauth = agreedParameters(header, parameters);
  const login = oauth('oauth_consumer_key');
  trace.login = login;
  trace.begin('method');
  trace.note({ requiredMethod: expected.signature, receivedMethod: oauth('oauth_signature_method') });
  if (oauth('oauth_version') !== '1.0') throw new VerificationError('version-wrong');
  if (oauth('oauth_signature_method') !== expected.signature) throw new VerificationError('method-wrong');
  trace.begin('timestamp');
  const clock = Math.floor(state.clock.now() / 1000);
  const expiry = checkTimestamp(oauth('oauth_timestamp'), clock, trace);
  trace.begin('login');
  if (!repeatsLogin(login, expected, received, form)) throw new VerificationError('login-mismatch');
  const keys = state.keys.get(login);
  if (keys === undefined) throw new VerificationError('login-unknown');
  trace.begin('base-string');
  const signed = header.filter(([name]) => name !== inHeaderOnly);
  const baseString = baseStringOf(received.url, [...form, ...signed]);
  trace.note({ baseString });
  trace.begin('signature');
  const triedKeys = keyNames(expected.signature, keys);
  trace.note({ triedKeys });
  const keyIndex = acceptingKey(expected.signature, keys, baseString, oauth(inHeaderOnly));
  trace.note({ key: triedKeys[keyIndex], triedKeys: undefined });
  trace.begin('nonce');
  if (!state.nonces.remember(login, oauth('oauth_nonce'), expiry, clock)) {
    throw new VerificationError('nonce-replayed');
  }
  return { login, form };
}

/** docs/gateway-interface.md section 4: a form, and no query in the URL. */
function readBody(received: ReceivedRequest): Pair[] {
  if (received.hasQuery) throw new VerificationError('query-present');
  const mediaType = received.contentType?.split(';')[0]?.trim().toLowerCase();
  if (mediaType !== 'application/x-www-form-urlencoded') throw new VerificationError('content-type-wrong');
  return decodeForm(received.body);
}

/** In either direction. Undocumented. */
const windowSeconds = 300;

/**
 * RFC 5849 section 3.3: a positive integer, in seconds.
 *
 * @returns when this timestamp is outside the window
 */
function checkTimestamp(text: string, clock: number, trace: VerificationTrace): number {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw new VerificationError('timestamp-malformed');
  const timestamp = Number(text);
  trace.note({ timestamp, clock, windowSeconds });
  const isNear = (seconds: number) => Math.abs(seconds - clock) <= windowSeconds;
  if (isNear(timestamp)) return timestamp + windowSeconds;
  throw new VerificationError(
    isNear(timestamp / 1000) ? 'timestamp-in-milliseconds' : 'timestamp-outside-window',
  );
}

/** docs/gateway-interface.md sections 4.1 and 4.2: the consumer key is the manager login, or the value of `login`. */
function repeatsLogin(
  login: string,
  { loginFrom: from }: Operation,
  received: ReceivedRequest,
  form: readonly Pair[],
): boolean {
  if (from === 'header') return true;
  const inForm = form.filter(([name]) => name === 'login').map(([, value]) => value);
  const named = from === 'path' ? [received.path['login']] : inForm;
  return named.length === 1 && named[0] === login;
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
  const fields = [...text.matchAll(field)];
  if (fields.reduce((length, [whole]) => length + whole.length, 0) !== text.length) malformed();
  return fields
    .filter(([, name]) => name?.toLowerCase() !== 'realm')
    .map(([, name = '', value = '']) => [
      percentDecode(name) ?? malformed(),
      percentDecode(value) ?? malformed(),
    ]);
}

function malformed(): never {
  throw new VerificationError('authorization-malformed');
}

/**
 * Five parameters and the signature in the header. The body has the same five with the same values
 * (docs/gateway-interface.md section 5.4), or no OAuth parameter (section 12).
 *
 * @throws VerificationError `oauth-parameter-...` or `header-body-mismatch`.
 */
function agreedParameters(header: readonly Pair[], body: readonly Pair[]): (name: string) => string {
  const inHeader = onceEach([...inBoth, inHeaderOnly], header);
  const ofBody = body.filter(isOAuth);
  const inBody = ofBody.length === 0 ? inHeader : onceEach(inBoth, ofBody);
  const different = inBoth.find((name) => inHeader(name) !== inBody(name));
  if (different !== undefined) throw new VerificationError('header-body-mismatch', different);
  inHeader(inHeaderOnly);
  return inHeader;
}

function isOAuth([name]: Pair): boolean {
  return name.startsWith('oauth_');
}

/**
 * RFC 5849 section 3.1: "Each parameter MUST NOT appear more than once per request."
 *
 * @returns the value of a parameter; throws VerificationError if it is missing
 */
function onceEach(names: readonly string[], pairs: readonly Pair[]): (name: string) => string {
  const found = new Map<string, string>();
  for (const [name, value] of pairs) {
    if (!names.includes(name)) throw new VerificationError('oauth-parameter-unexpected', name);
    if (found.has(name)) throw new VerificationError('oauth-parameter-repeated', name);
    found.set(name, value);
  }
  return (name) => {
    const value = found.get(name);
    if (value === undefined) throw new VerificationError('oauth-parameter-missing', name);
    return value;
  };
}
