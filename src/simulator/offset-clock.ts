/** The clock of the simulated gateway: a real one, plus an offset that may change while it runs. */
export class OffsetClock {
  readonly #clock: () => number;
  offsetSeconds = 0;

  /** @param clock milliseconds since 1970 */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Milliseconds since 1970. */
  readonly now = (): number => this.#clock() + this.offsetSeconds * 1000;
}
