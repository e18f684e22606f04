/** Milliseconds. Each failure doubles the wait. */
const initial = 1_000;
const max = 30_000;

/**
 * Exponential back-off, measured from the start of an attempt: a change that happens during a slow attempt is
 * still found one step after the change.
 */
export class RetrySteps {
  readonly #constantSteps: number;
  #failures = 0;
  #next = Number.NEGATIVE_INFINITY;

  /** @param constantSteps number of steps with the initial length before they double */
  constructor(constantSteps = 1) {
    this.#constantSteps = constantSteps;
  }

  /** @param now monotonic, milliseconds */
  isDue(now: number): boolean {
    return now >= this.#next;
  }

  /** @param beganAt when the attempt began; monotonic, milliseconds */
  recordFailure(beganAt: number): void {
    this.#failures += 1;
    const doublings = Math.min(30, Math.max(0, this.#failures - this.#constantSteps));
    // A slow response to an earlier attempt does not bring the next one forward.
    this.#next = Math.max(this.#next, beganAt + Math.min(max, initial * 2 ** doublings));
  }

  reset(): void {
    this.#failures = 0;
    this.#next = Number.NEGATIVE_INFINITY;
  }
}
