import { Backoff } from '../util/backoff.ts';
import type { MonotonicClock, SetTimer } from '../util/clock.ts';
import type { LogFields, Logger } from './logger.ts';

/** Milliseconds in which the third outage makes a source flapping. */
const period = 60_000;

const outages = 3;

/** Milliseconds without a failure after which a flapping source is up. */
const quiet = 30_000;

interface SteadyStateOptions extends MonotonicClock {
  readonly setTimer: SetTimer;
  /** @param cause why it is down */
  readonly report: (up: boolean, cause?: string) => void;
}

/** Milliseconds between lines with the same cause. */
const repetition = { initial: 300_000, max: 300_000 };

interface OutageLogOptions extends MonotonicClock {
  readonly log: Pick<Logger, 'message'>;
  readonly source: string;
  /** Default: those of the key source. */
  readonly messages?: { readonly failed: string; readonly recovered: string };
}

const keySourceMessages = { failed: 'key source unavailable', recovered: 'key source available again' };

/**
 * Logs an outage, by default of the key source: an error line at the beginning, at a change of the cause, and every five
 * minutes, and an info line at the end, however many attempts fail.
 */
export class OutageLog {
  readonly #options: OutageLogOptions;
  /** By cause: those that have a line. */
  readonly #reported = new Backoff(repetition);
  #startedAt: number | undefined;

  constructor(options: OutageLogOptions) {
    this.#options = options;
  }

  /** @param cause why; must not contain a secret */
  failed(cause: string): void {
    const now = this.#options.monotonic();
    this.#startedAt ??= now;
    if (!this.#reported.isDue(now, cause)) return;
    this.#reported.recordFailure(now, {}, cause);
    this.#write('error', 'failed', now - this.#startedAt, { cause });
  }

  answered(): void {
    if (this.#startedAt === undefined) return;
    this.#write('info', 'recovered', this.#options.monotonic() - this.#startedAt);
    this.#startedAt = undefined;
    this.#reported.reset();
  }

  #write(
    level: 'info' | 'error',
    what: keyof typeof keySourceMessages,
    age: number,
    why: LogFields = {},
  ): void {
    const { log, source, messages = keySourceMessages } = this.#options;
    log.message(level, messages[what], { source, ...why, seconds: Math.round(age / 1000) });
  }
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
