import { overloaded, ProxyError } from '../errors.ts';
import type { MonotonicClock } from '../util/clock.ts';

interface Use {
  inFlight: number;
  /** When the last request ended, or began while there was no other; monotonic, milliseconds. */
  since: number;
}

/** Counts requests by caller and by environment, and rejects those above a limit. */
export class ConcurrencyLimiter {
  readonly #callers = new Map<string, Use>();
  readonly #environments = new Map<string, Use>();
  readonly #monotonic: () => number;

  constructor({ monotonic }: MonotonicClock) {
    this.#monotonic = monotonic;
  }

  /**
   * A slot of the caller: from before its form is read, since a slow form uses memory, too.
   *
   * @returns releases the slot; further calls do nothing
   * @throws ProxyError `caller-limit`
   */
  acquireForCaller(name: string, limit = Number.POSITIVE_INFINITY): () => void {
    const release = this.#take(this.#callers, name, limit);
    if (release !== undefined) return release;
    const detail = `The limit of ${limit} concurrent requests of this caller is reached. Retry later.`;
    throw new ProxyError('caller-limit', detail, { limit: 'callers[].maxInFlight', retryAfter: 1 });
  }

  /**
   * A slot of the environment: only for a request that is about to be sent.
   *
   * @returns releases the slot; further calls do nothing
   * @throws ProxyError `overloaded`
   */
  acquireForEnvironment(name: string, limit: number): () => void {
    const release = this.#take(this.#environments, name, limit);
    if (release !== undefined) return release;
    const detail = `The limit of ${limit} concurrent requests to this environment is reached.`;
    throw overloaded('environments.*.maxInFlight', detail);
  }

  /** Requests to the environment in flight. */
  inFlight(environment: string): number {
    return this.#environments.get(environment)?.inFlight ?? 0;
  }

  /** Seconds for which there have been requests in flight and none of them has ended; `undefined`: none is in flight. */
  waiting(environment: string): number | undefined {
    const use = this.#environments.get(environment);
    return use === undefined || use.inFlight === 0 ? undefined : (this.#monotonic() - use.since) / 1000;
  }

  /** @returns releases the slot; `undefined` if none is free */
  #take(uses: Map<string, Use>, name: string, limit: number): (() => void) | undefined {
    const use = uses.get(name) ?? { inFlight: 0, since: 0 };
    if (use.inFlight >= limit) return undefined;
    uses.set(name, use);
    if (use.inFlight === 0) use.since = this.#monotonic();
    use.inFlight += 1;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      use.inFlight -= 1;
      use.since = this.#monotonic();
    };
  }
}

/** The bytes of one request, from the first byte of its form until its response is written. */
export interface MemoryReservation {
  /** @returns `false` if the budget has not enough bytes left for this holder; nothing is reserved then */
  reserve(bytes: number): boolean;
  release(): void;
}

/**
 * Bounds the bytes of forms and responses in memory, so that the process stays within its memory limit.
 *
 * A holder, which is a caller, may hold as much as it leaves free. So one alone gets half of the budget, two get a
 * third each, and whatever the others do, the next caller finds some.
 */
export class MemoryBudget {
  /** Bytes. May be lowered; what is already reserved stays reserved until it is released. */
  limit: number;
  #reserved = 0;
  readonly #held = new Map<string, number>();

  /** @param limit bytes */
  constructor(limit: number) {
    this.limit = limit;
  }

  reservation(holder: string): MemoryReservation {
    let reserved = 0;
    return {
      reserve: (bytes) => {
        if (!this.#change(holder, bytes)) return false;
        reserved += bytes;
        return true;
      },
      release: () => {
        this.#change(holder, -reserved);
        reserved = 0;
      },
    };
  }

  /** Reserves bytes, or releases them if negative. @returns whether enough are left */
  #change(holder: string, bytes: number): boolean {
    const held = (this.#held.get(holder) ?? 0) + bytes;
    const reserved = this.#reserved + bytes;
    // A release always succeeds, even while more than a lowered limit is reserved.
    if (bytes > 0 && held > this.limit - reserved) return false;
    this.#held.set(holder, held);
    this.#reserved = reserved;
    return true;
  }
}

/** For commands, which send one request at a time. */
export function unlimitedMemory(): MemoryReservation {
  return new MemoryBudget(Number.POSITIVE_INFINITY).reservation('');
}
