import type { MonotonicClock } from '../util/clock.ts';
import type { SetTimer } from '../util/timer.ts';

/** Milliseconds in which the third outage makes a source flapping. */
const period = 60_000;
const outages = 3;
/** Milliseconds without a failure after which a flapping source is up. */
const quiet = 30_000;

export interface SteadyStateOptions extends MonotonicClock {
  readonly setTimer: SetTimer;
  /** @param cause why it is down */
  readonly report: (up: boolean, cause?: string) => void;
}

/**
 * Reports whether a source is up. One that fails for the third time within a minute is flapping, which is one state: it
 * is down until it has not failed for half a minute. Otherwise each change would be a line in the log, and an alert
 * that waits some minutes would never fire.
 */
export class SteadyState {
  readonly #options: SteadyStateOptions;
  /** When the last outages began; monotonic, milliseconds. */
  #beginnings: readonly number[] = [];
  #down = false;
  #flapping = false;
  #failedAt = 0;
  #cancel: (() => void) | undefined;

  constructor(options: SteadyStateOptions) {
    this.#options = options;
  }

  failed(cause: string): void {
    const now = this.#options.monotonic();
    if (!this.#down) this.#begin(now);
    this.#failedAt = now;
    this.#cancelTimer();
    this.#options.report(false, cause);
  }

  responded(): void {
    const wait = this.#failedAt + quiet - this.#options.monotonic();
    if (!this.#down || !this.#flapping || wait <= 0) this.#report();
    else this.#cancel ??= this.#options.setTimer(() => this.#report(), wait);
  }

  #begin(now: number): void {
    this.#down = true;
    this.#beginnings = [...this.#beginnings, now].slice(-outages);
    const [first = now] = this.#beginnings;
    this.#flapping = this.#beginnings.length === outages && now - first < period;
  }

  #report(): void {
    this.#cancelTimer();
    this.#down = false;
    this.#options.report(true);
  }

  #cancelTimer(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}
