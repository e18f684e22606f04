import type { Destination } from '../../gateway/router.ts';
import type { UsableKey } from '../../keys/key-source.ts';
import type { Pair } from '../../oauth1/parameters.ts';
import type { Signed } from '../../oauth1/sign.ts';
import type { UpstreamRecord } from '../../request-context.ts';
import type { MemoryReservation } from '../memory-budget.ts';
import type { SigningPool } from '../signing-pool.ts';
import type { SignedHttpRequest } from './upstream-request.ts';

/** A request that has passed every check. */
export interface ValidatedRequest {
  /** What the forwarder notes. */
  readonly record: UpstreamRecord;
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
 * Signs a request, with a new nonce and timestamp each time.
 *
 * @throws Refusal `overloaded`
 */
export async function signRequest(
  errand: ValidatedRequest,
  key: UsableKey,
  ports: SigningOptions,
): Promise<SignedHttpRequest> {
  const { destination, login, form } = errand;
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
