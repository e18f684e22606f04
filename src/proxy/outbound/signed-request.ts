import type { Destination } from '../../gateway/router.ts';
import type { UsableKey } from '../../keys/ring.ts';
import type { Pair } from '../../oauth1/parameters.ts';
import type { Signed, Unsigned } from '../../oauth1/sign.ts';
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

/** What is sent, and the parameters of its signature that differ from one attempt to the next. */
interface SignedAttempt {
  readonly http: SignedHttpRequest;
  readonly nonce: string;
  /** Seconds since 1970. */
  readonly timestamp: number;
}

export interface SigningOptions extends WallClock, MonotonicClock {
  readonly signer: SigningPool;
  /** 128 random bits as text. */
  readonly nonce: () => string;
  readonly userAgent: string;
}

/**
 * Signs a request, with a new nonce and timestamp each time.
 *
 * @throws ProxyError `overloaded`, `signing-unavailable`, `key-unusable`
 */
export async function signRequest(
  request: ValidatedRequest,
  key: UsableKey,
  options: SigningOptions,
): Promise<SignedAttempt> {
  const unsigned = unsignedRequest(request, options.nonce(), Math.floor(options.clock() / 1000));
  const { destination, login, record } = request;
  const signed = await options.signer.sign(unsigned, key.key, {
    login: { environment: destination.environment, login },
    caller: record.caller ?? '',
  });
  const http = buildUpstreamRequest(unsigned.url, signed, options.userAgent);
  return { http, nonce: unsigned.nonce, timestamp: unsigned.timestamp };
}

/** @param timestamp seconds since 1970 */
export function unsignedRequest(
  { destination, login, form }: Pick<ValidatedRequest, 'destination' | 'login' | 'form'>,
  nonce: string,
  timestamp: number,
): Unsigned {
  const { url, operation } = destination;
  const signatureMethod = operation.signature;
  return { method: 'POST', url, form, signatureMethod, consumerKey: login, nonce, timestamp };
}

/** Everything that is sent to the gateway. */
export function buildUpstreamRequest(
  url: URL,
  { authorization, body }: Signed,
  userAgent: string,
): SignedHttpRequest {
  const headers = {
    Host: url.host,
    'Content-Type': 'application/x-www-form-urlencoded',
    'Content-Length': String(body.length),
    Authorization: authorization,
    Accept: '*/*',
    // A response that is coded is not read here: neither as JSON for the client, nor for the log.
    'Accept-Encoding': 'identity',
    'User-Agent': userAgent,
  };
  return { url, headers, body };
}
