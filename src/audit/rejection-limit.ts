import type { MonotonicClock } from '../util/clock.ts';
import { TokenBucket } from '../util/token-bucket.ts';

/** Records in a burst, and records per second after that: about 60 MB a day. */
const limit = { burst: 100, rate: 1 };

/** Rejected requests of a caller that have no record. */
export interface Omitted {
  /** `undefined`: requests that were rejected before their caller was known. */
  readonly caller: string | undefined;
  readonly count: number;
}

interface Limited {
  readonly bucket: TokenBucket;
  omitted: number;
}

/**
 * Limits the records of rejected requests, which cost the client less than a record costs the disk: for each caller, so that
 * no one fills it or uses up the records of another, and for all requests of unknown callers together. The others are
 * counted, and the count becomes a record.
 */
export class RejectionLimit {
  readonly #clock: MonotonicClock;
  /** Those that are below their limit have no entry after {@link takeAllOmitted}. */
  readonly #callers = new Map<string | undefined, Limited>();

  constructor(clock: MonotonicClock) {
    this.#clock = clock;
  }

  /** Whether a record may be written; counts it if not. */
  allows(caller: string | undefined): boolean {
    let limited = this.#callers.get(caller);
    if (limited === undefined) {
      limited = { bucket: new TokenBucket({ ...limit, monotonic: this.#clock.monotonic }), omitted: 0 };
      this.#callers.set(caller, limited);
    }
    if (limited.bucket.take()) return true;
    limited.omitted += 1;
    return false;
  }

  /** The number of omitted records of this caller since the last call. */
  takeOmitted(caller: string | undefined): Omitted {
    const limited = this.#callers.get(caller);
    const count = limited?.omitted ?? 0;
    if (limited !== undefined) limited.omitted = 0;
    return { caller, count };
  }

  /** The same of all callers. */
  takeAllOmitted(): Omitted[] {
    const all = [...this.#callers.keys()].map((caller) => this.takeOmitted(caller));
    for (const [caller, { bucket }] of this.#callers) if (bucket.isFull()) this.#callers.delete(caller);
    return all;
  }
}
