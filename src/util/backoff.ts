import type { MonotonicClock, Randomness } from './clock.ts';

export interface BackoffOptions extends MonotonicClock, Randomness {}

interface BackoffRange {
  /** Milliseconds of the first wait. Each failure doubles it, minus random jitter. */
  readonly initial: number;
  /** Maximum milliseconds. */
  readonly max: number;
  /** The largest part of a wait that jitter may subtract. Default: 0.5. */
  readonly jitter?: number;
}

/** To remember. */
const maxKeys = 1000;

interface Wait {
  readonly failures: number;
  readonly until: number;
}

/**
 * Exponential back-off: how long to wait after a failure, apart for each key, of which there may be just one. It has
 * neither a clock nor timers: times are monotonic, in milliseconds, and callers query it before they retry.
 */
export class Backoff {
  readonly #range: BackoffRange;
  readonly #random: () => number;
  /** The keys that failed, the latest last. */
  readonly #waits = new Map<string, Wait>();

  /** @param random from 0 up to 1, for the jitter; without it there is none */
  constructor(range: BackoffRange, random: () => number = () => 0) {
    this.#range = range;
    this.#random = random;
  }

  isDue(now: number, key = ''): boolean {
    return this.remaining(now, key) === 0;
  }

  /** Milliseconds until the next attempt is due; 0 if it is due now. */
  remaining(now: number, key = ''): number {
    return Math.max(0, (this.#waits.get(key)?.until ?? now) - now);
  }

  /** Never brings the next attempt forward, whatever order attempts end in. */
  recordFailure(now: number, key = ''): void {
    const { initial, max, jitter = 0.5 } = this.#range;
    const { failures, until } = this.#waits.get(key) ?? { failures: 0, until: now };
    const doubled = Math.min(max, initial * 2 ** failures);
    const next = Math.max(until, now + doubled - this.#random() * doubled * jitter);
    this.#waits.delete(key);
    this.#waits.set(key, { failures: failures + 1, until: next });
    const [oldest] = this.#waits.keys();
    if (this.#waits.size > maxKeys && oldest !== undefined) this.#waits.delete(oldest);
  }

  /** After a success; without a key for all of them. */
  reset(key?: string): void {
    if (key === undefined) this.#waits.clear();
    else this.#waits.delete(key);
  }
}
