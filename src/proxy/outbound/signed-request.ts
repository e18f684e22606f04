import type { Destination } from '../../gateway/router.ts';
import type { UsableKey } from '../../keys/key-source.ts';
import type { Pair } from '../../oauth1/parameters.ts';
import type { Signed } from '../../oauth1/sign.ts';
import type { RequestContext } from '../../request-context.ts';
import type { MemoryReservation } from '../memory-budget.ts';
import type { SigningPool } from '../signing-pool.ts';
import type { SignedHttpRequest } from './upstream-request.ts';

/** A request that has passed every check. */
export interface ValidatedRequest {
  readonly exchange: RequestContext;
  readonly destination: Destination;
  readonly login: string;
  readonly form: readonly Pair[];
  readonly memory: MemoryReservation;
}

export interface SigningOptions {
  readonly signer: SigningPool;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  /** 128 random bits as text. */
  readonly nonce: () => string;
  readonly userAgent: string;
}

/**
 * Signs an errand, with a nonce and a timestamp of its own each time, and notes the key.
 *
 * @throws Refusal `overloaded`
 */
export async function signRequest(
  errand: ValidatedRequest,
  key: UsableKey,
  ports: SigningOptions,
): Promise<SignedHttpRequest> {
  const { exchange, destination, login, form } = errand;
  exchange.keyKind = key.kind;
  exchange.keyVersion = key.version;
  if (key.fingerprint !== undefined) exchange.keyFingerprint = key.fingerprint;
  const startedAt = ports.monotonic();
  const unsigned = {
    method: 'POST',
    url: destination.url,
    form,
    signatureMethod: destination.operation.signature,
    consumerKey: login,
    nonce: ports.nonce(),
    timestamp: Math.floor(ports.clock() / 1000),
  };
  const signed = await ports.signer.sign(unsigned, key.key);
  exchange.durations.sign = (exchange.durations.sign ?? 0) + (ports.monotonic() - startedAt) / 1000;
  return buildUpstreamRequest(destination.url, signed, ports.userAgent);
}

/** Everything that is sent. */
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
    'User-Agent': userAgent,
  };
  return { url, headers, body };
}
