/** Steps in one turn of the event loop. Each takes up to 0.3 ms. */
const stepsPerTurn = 16;

/**
 * Does work that a thousand strangers can cause at once in small parts, so that it does not hold the event loop: between
 * them, known clients and the gateway's responses have their turn.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];

  /** Calls back in one of the next turns of the event loop, first come, first served. */
  wait(step: () => void): void {
    if (this.#waiting.push(step) === 1) setImmediate(() => this.#next());
  }

  #next(): void {
    const steps = this.#waiting.splice(0, stepsPerTurn);
    if (this.#waiting.length > 0) setImmediate(() => this.#next());
    for (const step of steps) step();
  }
}
