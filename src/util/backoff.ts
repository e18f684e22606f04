/** What waiting needs: a clock that nobody sets, and random numbers from 0 up to 1. */
export interface BackoffOptions {
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  readonly random: () => number;
}

export interface BackoffRange {
  /** Milliseconds of the first wait and of the longest; each failure doubles it, less a part by chance. */
  readonly initial: number;
  readonly max: number;
  /** The greatest part that chance takes off; a half unless given. */
  readonly jitter?: number;
}

/** How long to leave something alone after it failed. Knows no timers: whoever wants to try asks. */
export class ExponentialBackoff {
  readonly #ports: BackoffOptions;
  readonly #range: BackoffRange;
  #failures = 0;
  #until = 0;

  constructor(ports: BackoffOptions, range: BackoffRange) {
    this.#ports = ports;
    this.#range = range;
  }

  /** Milliseconds until the next try is due; 0 when it is due now. */
  get remaining(): number {
    return Math.max(0, this.#until - this.#ports.monotonic());
  }

  /** Since the last success. */
  get failures(): number {
    return this.#failures;
  }

  /**
   * @param atLeast seconds, from `Retry-After`
   * @param spent milliseconds of the wait that are over already
   */
  recordFailure(atLeast = 0, spent = 0): void {
    const { initial: first, max: longest, jitter: part = 0.5 } = this.#range;
    const doubled = Math.min(longest, first * 2 ** Math.min(this.#failures, 30));
    this.#failures += 1;
    const chance = this.#ports.random() * doubled;
    const wait = Math.max(0, doubled - chance * part - spent);
    this.holdFor(Math.max(wait, atLeast > 0 ? atLeast * 1000 + chance * 0.5 : 0));
  }

  reset(): void {
    this.#failures = 0;
    this.#until = 0;
  }

  /** Keeps others away for so many milliseconds, without counting a failure. */
  holdFor(wait: number): void {
    this.#until = this.#ports.monotonic() + wait;
  }
}
