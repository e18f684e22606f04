/** Milliseconds between samples, and how many are kept: those of the last second. */
const every = 10;
const kept = 100;

/**
 * By how much this process was lately late: what it sees of a connection may have happened so much earlier. The
 * gateway, the callers and the supervisor share one event loop.
 */
export class LoopDelay {
  readonly #samples: number[] = [];
  readonly #timer: NodeJS.Timeout;
  #expectedAt = performance.now() + every;

  constructor() {
    this.#timer = setInterval(() => this.#sample(), every).unref();
  }

  /** Milliseconds: the longest delay of the last second, the one that lasts included. */
  recent(): number {
    return Math.max(0, performance.now() - this.#expectedAt, ...this.#samples);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #sample(): void {
    this.#samples.push(performance.now() - this.#expectedAt);
    if (this.#samples.length > kept) this.#samples.shift();
    this.#expectedAt = performance.now() + every;
  }
}
