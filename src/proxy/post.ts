import type { Exchange } from '../exchange.ts';
import type { Destination } from '../gateway/resolve.ts';
import type { UsableKey } from '../keys/source.ts';
import type { Pair } from '../oauth1/parameters.ts';
import type { Signed } from '../oauth1/sign.ts';
import type { Post } from './crossing.ts';
import type { MemoryReservation } from './memory-budget.ts';
import type { Signer } from './signer.ts';

/** A request that has passed every check. */
export interface Errand {
  readonly exchange: Exchange;
  readonly destination: Destination;
  readonly login: string;
  readonly form: readonly Pair[];
  readonly memory: MemoryReservation;
}

export interface PostPorts {
  readonly signer: Signer;
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
export async function signedPost(errand: Errand, key: UsableKey, ports: PostPorts): Promise<Post> {
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
  return postOf(destination.url, signed, ports.userAgent);
}

/** Everything that is sent. */
export function postOf(url: URL, { authorization, body }: Signed, userAgent: string): Post {
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
