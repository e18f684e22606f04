/** A clock that the test moves, and the timers that depend on it. */
export class ManualClock {
  #now = Date.parse('2026-01-01T00:00:00Z');
  #timers: { at: number; run: () => void }[] = [];

  readonly now = (): number => this.#now;

  readonly setTimer = (run: () => void, milliseconds: number): (() => void) => {
    const timer = { at: this.#now + milliseconds, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  };

  /** Milliseconds until the next timer; undefined without one. */
  get nextTimer(): number | undefined {
    const times = this.#timers.map((timer) => timer.at - this.#now);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** Advances the time and runs the timers that are then due, once each. */
  advance(milliseconds: number): void {
    this.#now += milliseconds;
    const due = this.#timers.filter((timer) => timer.at <= this.#now);
    this.#timers = this.#timers.filter((timer) => timer.at > this.#now);
    for (const timer of due) timer.run();
  }
}
