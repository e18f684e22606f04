import type { MonotonicClock } from '../util/clock.ts';

/** Records in a burst, and records per second after that: about 40 MB a day. */
const burst = 100;
const rate = 1;

/**
 * Limits the records of requests that were rejected before their caller was known: they cost the client less than a record
 * costs the disk. The others are counted, and the count becomes a record.
 */
export class RejectionLimit {
  readonly #monotonic: () => number;
  #tokens = burst;
  #checkedAt: number;
  #omitted = 0;

  constructor({ monotonic }: MonotonicClock) {
    this.#monotonic = monotonic;
    this.#checkedAt = monotonic();
  }

  /** Whether a record may be written; counts it if not. */
  allows(): boolean {
    const now = this.#monotonic();
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#checkedAt) / 1000) * rate);
    this.#checkedAt = now;
    if (this.#tokens < 1) {
      this.#omitted += 1;
      return false;
    }
    this.#tokens -= 1;
    return true;
  }

  /** The number of omitted records since the last call. */
  takeOmitted(): number {
    const omitted = this.#omitted;
    this.#omitted = 0;
    return omitted;
  }
}
