/** Milliseconds of the first step and of the longest; each fruitless attempt doubles it. */
const initial = 1_000;
const longest = 30_000;

/**
 * How soon something fruitless may be tried again. Counted from the moment an attempt began: what changes
 * while it runs is found one step after the change, however slow the answer was.
 */
export class RetrySteps {
  readonly #steady: number;
  #fruitless = 0;
  #next = Number.NEGATIVE_INFINITY;

  /** @param steady how many steps have the initial length before they double */
  constructor(steady = 1) {
    this.#steady = steady;
  }

  /** @param now monotonic, milliseconds */
  isDue(now: number): boolean {
    return now >= this.#next;
  }

  /** @param beganAt monotonic, milliseconds */
  recordFruitless(beganAt: number): void {
    this.#fruitless += 1;
    const doublings = Math.min(30, Math.max(0, this.#fruitless - this.#steady));
    // A slow response to an earlier attempt does not bring the next one forward.
    this.#next = Math.max(this.#next, beganAt + Math.min(longest, initial * 2 ** doublings));
  }

  reset(): void {
    this.#fruitless = 0;
    this.#next = Number.NEGATIVE_INFINITY;
  }
}
