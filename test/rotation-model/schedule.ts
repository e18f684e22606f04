import type { Gateway } from './gateway.ts';
import type { Vault } from './vault.ts';

/** The login that rotates. Others only disturb it. */
export const rotating = 'shop';
/** A caller whose own requests may fail: others must not notice it. */
export const attacker = 'mallory';

/** One caller's requests of one kind. */
export interface Stream {
  readonly caller: string;
  readonly operation: 'query' | 'payment';
  readonly endpoint: string;
  readonly login: string;
  readonly perSecond: number;
  readonly from: number;
  /** Each request has an endpoint, or a login, that nobody has used before. */
  readonly invents?: 'endpoint' | 'login';
  /** The part of the forms that the gateway finds wrong before it looks at the signature. */
  readonly malformed: number;
  /** The part of the forms that get 403 whatever key signs. */
  readonly unpermitted: number;
}

/** A request, with what the gateway will say to it whenever it is sent. */
export interface Form extends Pick<Stream, 'caller' | 'operation' | 'endpoint' | 'login'> {
  readonly id: number;
  readonly isMalformed: boolean;
  readonly isUnpermitted: boolean;
  readonly isRefused: boolean;
}

/** How the gateway behaves at all times. */
export interface Traits {
  readonly nodes: number;
  /** The part of the forms with the right signature that are refused nevertheless, as unknown orders are. */
  readonly refused: number;
  /** The part of the requests that a load balancer responds to, or nobody. */
  readonly unanswered: number;
  /** Milliseconds that a request or its response is on its way at most; one of a hundred takes longer. */
  readonly latency: number;
}

/** What an event changes. */
export interface World {
  readonly vault: Vault;
  readonly gateway: Gateway;
  restart(): void;
}

interface Event {
  /** Milliseconds since the beginning. */
  readonly at: number;
  readonly text: string;
  readonly happen: (world: World) => void;
}

/**
 * `ordinary`: rotations and restarts, and nothing else that is odd. `hostile`: the same beside a caller that
 * invents whatever it can. `odd`: a gateway, callers and a Vault that are not as they should be.
 */
export const families = ['ordinary', 'hostile', 'odd'] as const;
export type Family = (typeof families)[number];

export interface Schedule {
  readonly family: Family;
  /** Also for what is not in it, such as latencies. */
  readonly seed: number;
  readonly length: number;
  /** `keys.cache.ttl`, milliseconds. */
  readonly ttl: number;
  /** Versions of a secret that Vault keeps: `max_versions`. */
  readonly kept: number;
  /** Milliseconds that Vault needs for a response at most. */
  readonly vaultLatency: number;
  readonly traits: Traits;
  readonly streams: readonly Stream[];
  readonly events: readonly Event[];
}
