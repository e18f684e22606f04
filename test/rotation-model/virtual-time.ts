/** Milliseconds since 1970 at the beginning of every schedule. */
export const epoch = Date.UTC(2026, 0, 15, 12);

interface Due {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

/** A clock that moves only when everything that could happen at its present time has happened. */
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
   * For what goes on by itself: it runs as long as something else is due.
   *
   * @returns what ends it
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

  /** Runs until nothing is due any more but timers. */
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

/** Resolves when no promise can go on without the clock. */
function microtasks(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
