import { setImmediate } from 'node:timers/promises';

/** Milliseconds since 1970 at the beginning of every schedule. */
export const epoch = Date.UTC(2026, 0, 15, 12);

interface Due {
  readonly at: number;
  readonly run: () => void;
}

/** A clock that advances only when nothing more can happen at its current time. */
export class VirtualTime {
  /** Whole milliseconds since the beginning. */
  now = 0;
  /** Sorted, the next one last; of those at one time, the first that was added. */
  readonly #due: Due[] = [];

  at(at: number, run: () => void): void {
    const due = { at: Math.max(Math.round(at), this.now), run };
    let [first, last] = [0, this.#due.length];
    while (first < last) {
      const middle = (first + last) >> 1;
      if ((this.#due[middle]?.at ?? 0) > due.at) first = middle + 1;
      else last = middle;
    }
    this.#due.splice(first, 0, due);
  }

  wait(milliseconds: number): Promise<void> {
    return new Promise((resolve) => this.at(this.now + milliseconds, resolve));
  }

  /** @returns cancels it */
  timer(run: () => void, milliseconds: number): () => void {
    let isCancelled = false;
    this.at(this.now + milliseconds, () => {
      if (!isCancelled) run();
    });
    return () => {
      isCancelled = true;
    };
  }

  async run(until: number): Promise<void> {
    for (;;) {
      const next = this.#due.pop();
      if (next === undefined || next.at > until) return;
      this.now = next.at;
      next.run();
      // Until no promise can continue without the clock, and a rejection that nobody handled was reported.
      await setImmediate();
    }
  }
}
