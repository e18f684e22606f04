/** Milliseconds since 1970 at the beginning of every schedule. */
export const epoch = Date.UTC(2026, 0, 15, 12);

interface Due {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

/** A clock that advances only when nothing more can happen at its current time. */
export class VirtualTime {
  /** Milliseconds since the beginning. */
  now = 0;
  #order = 0;
  #timers = 0;
  /** Sorted, the next one last. */
  readonly #due: Due[] = [];

  at(at: number, run: () => void): void {
    const due = { at: Math.max(at, this.now), order: this.#order, run };
    this.#order += 1;
    const index = this.#due.findLastIndex(
      (one) => one.at > due.at || (one.at === due.at && one.order > due.order),
    );
    this.#due.splice(index + 1, 0, due);
  }

  wait(milliseconds: number): Promise<void> {
    return new Promise((resolve) => this.at(this.now + milliseconds, resolve));
  }

  /**
   * A timer for background work. It runs only as long as something else is due.
   *
   * @returns cancels it
   */
  timer(run: () => void, milliseconds: number): () => void {
    let ended = false;
    this.#timers += 1;
    this.at(this.now + milliseconds, () => {
      this.#timers -= 1;
      if (!ended) run();
    });
    return () => {
      ended = true;
    };
  }

  /** Runs until only timers are due. */
  async run(): Promise<void> {
    while (this.#due.length > this.#timers) {
      const next = this.#due.pop();
      if (next === undefined) return;
      this.now = next.at;
      next.run();
      await microtasks();
    }
  }
}

/** Resolves when no promise can continue without the clock. */
function microtasks(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
