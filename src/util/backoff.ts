import type { MonotonicClock, Randomness } from './clock.ts';

export interface BackoffOptions extends MonotonicClock, Randomness {}

export interface BackoffRange {
  /** Milliseconds of the first wait. Each failure doubles it, minus random jitter. */
  readonly initial: number;
  /** Maximum milliseconds. */
  readonly max: number;
  /** The largest part of a wait that jitter may subtract. Default: 0.5. */
  readonly jitter?: number;
}

/** Exponential back-off with jitter. It has no timers; callers query {@link remaining} before they retry. */
export class ExponentialBackoff {
  readonly #options: BackoffOptions;
  readonly #range: BackoffRange;
  #failures = 0;
  #until = 0;

  constructor(options: BackoffOptions, range: BackoffRange) {
    this.#options = options;
    this.#range = range;
  }

  /** Milliseconds until the next attempt is due; 0 if it is due now. */
  get remaining(): number {
    return Math.max(0, this.#until - this.#options.monotonic());
  }

  /** Since the last success. */
  get failures(): number {
    return this.#failures;
  }

  /**
   * @param atLeast seconds, from `Retry-After`
   * @param spent milliseconds of the wait that have already passed
   */
  recordFailure(atLeast = 0, spent = 0): void {
    const { initial, max, jitter = 0.5 } = this.#range;
    const doubled = Math.min(max, initial * 2 ** Math.min(this.#failures, 30));
    this.#failures += 1;
    const spread = this.#options.random() * doubled;
    const wait = Math.max(0, doubled - spread * jitter - spent);
    this.holdFor(Math.max(wait, atLeast > 0 ? atLeast * 1000 + spread * 0.5 : 0));
  }

  reset(): void {
    this.#failures = 0;
    this.#until = 0;
  }

  /** Sets the wait in milliseconds, without counting a failure. */
  holdFor(wait: number): void {
    this.#until = this.#options.monotonic() + wait;
  }
}
