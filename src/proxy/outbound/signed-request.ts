import { controlName, controlText, formWithLogin } from '../../gateway/control.ts';
import type { Destination } from '../../gateway/router.ts';
import type { UsableKey } from '../../keys/ring.ts';
import type { MethodName, OAuthMethodName } from '../../oauth1/methods.ts';
import { encodePairs, joinPairs, type Pair } from '../../oauth1/parameters.ts';
import { type Signed, signWith, type Unsigned } from '../../oauth1/sign.ts';
import type { RequestRecord } from '../../request-context.ts';
import type { MonotonicClock, WallClock } from '../../util/clock.ts';
import type { MemoryReservation } from '../limits.ts';
import type { SigningPool } from '../signing-pool.ts';
import type { SignedHttpRequest } from './upstream-request.ts';

/** A request that passed every check. */
export interface ValidatedRequest {
  /** Written by the forwarder too. */
  readonly record: RequestRecord;
  readonly destination: Destination;
  readonly login: string;
  readonly form: readonly Pair[];
  readonly memory: MemoryReservation;
}

/** The key that the log line, the span and the record of a callback name. */
export function recordKey(record: RequestRecord, { version, fingerprint }: UsableKey): void {
  record.keyVersion = version;
  if (fingerprint !== undefined) record.keyFingerprint = fingerprint;
}

/** What is sent, and the parameters of its signature that differ from one attempt to the next; a control has none. */
interface SignedAttempt {
  readonly http: SignedHttpRequest;
  readonly nonce?: string;
  /** Seconds since 1970. */
  readonly timestamp?: number;
}

export interface SigningOptions extends WallClock, MonotonicClock {
  readonly signer: SigningPool;
  /** 122 random bits as text. */
  readonly nonce: () => string;
  readonly userAgent: string;
}

/** Computes the signature of a text with this method. */
type Signer = (method: MethodName, text: string) => string | Promise<string>;

/**
 * Signs a request, an OAuth one with a new nonce and timestamp each time.
 *
 * @throws ProxyError `overloaded`, `signing-unavailable`, `key-unusable`
 */
export async function signRequest(
  request: ValidatedRequest,
  key: UsableKey,
  options: SigningOptions,
): Promise<SignedAttempt> {
  const { destination, login, record } = request;
  const signee = { login: { environment: destination.environment, login }, caller: record.caller ?? '' };
  const signer: Signer = (method, text) => options.signer.sign(method, text, key.key, signee);
  const { url, operation } = destination;
  const { signature: method } = operation;
  if (method === 'SHA1-control')
    return { http: buildUpstreamRequest(url, await withControl(request, signer), options.userAgent) };
  const [nonce, timestamp] = [options.nonce(), Math.floor(options.clock() / 1000)];
  const unsigned = unsignedRequest(request, method, nonce, timestamp);
  const signed = await signWith(unsigned, (baseString) => signer(method, baseString));
  return { http: buildUpstreamRequest(url, signed, options.userAgent), nonce, timestamp };
}

/** @param timestamp seconds since 1970 */
export function unsignedRequest(
  { destination, login, form }: Pick<ValidatedRequest, 'destination' | 'login' | 'form'>,
  signatureMethod: OAuthMethodName,
  nonce: string,
  timestamp: number,
): Unsigned {
  const { url } = destination;
  return { method: 'POST', url, form, signatureMethod, consumerKey: login, nonce, timestamp };
}

/** The form with its control at the end. */
async function withControl(request: ValidatedRequest, signer: Signer): Promise<Pick<Signed, 'body'>> {
  const control = await signer('SHA1-control', controlText(request));
  return { body: joinPairs(encodePairs([...formWithLogin(request), [controlName, control]])) };
}

/** Everything that is sent to the gateway. */
export function buildUpstreamRequest(
  url: URL,
  { authorization, body }: Partial<Signed> & Pick<Signed, 'body'>,
  userAgent: string,
): SignedHttpRequest {
  const headers = {
    Host: url.host,
    'Content-Type': 'application/x-www-form-urlencoded',
    'Content-Length': String(body.length),
    ...(authorization === undefined ? {} : { Authorization: authorization }),
    Accept: '*/*',
    // A response that is coded is not read here: neither as JSON for the client, nor for the log.
    'Accept-Encoding': 'identity',
    'User-Agent': userAgent,
  };
  return { url, headers, body };
}
