import type { MonotonicClock } from './clock.ts';

interface TokenBucketOptions extends MonotonicClock {
  /** Events at once. */
  readonly burst: number;
  /** Events per second after that. */
  readonly rate: number;
}

/** Allows a burst of events, then a fixed number per second. */
export class TokenBucket {
  readonly #options: TokenBucketOptions;
  #tokens: number;
  #checkedAt: number;

  constructor(options: TokenBucketOptions) {
    this.#options = options;
    this.#tokens = options.burst;
    this.#checkedAt = options.monotonic();
  }

  /** Whether an event is allowed now; counts it if so. */
  take(): boolean {
    this.#refill();
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }

  /** Whether a whole burst is allowed now, as for a new bucket. */
  isFull(): boolean {
    this.#refill();
    return this.#tokens === this.#options.burst;
  }

  #refill(): void {
    const { burst, rate, monotonic } = this.#options;
    const now = monotonic();
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#checkedAt) / 1000) * rate);
    this.#checkedAt = now;
  }
}
