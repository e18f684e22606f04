import { Backoff } from '../util/backoff.ts';
import type { MonotonicClock } from '../util/clock.ts';
import type { Logger } from './logger.ts';

/** Milliseconds between lines with the same cause. */
const repetition = { initial: 300_000, max: 300_000 };

export interface OutageLogOptions extends MonotonicClock {
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
    const { log, source, messages = keySourceMessages } = this.#options;
    log.message('error', messages.failed, {
      source,
      cause,
      seconds: this.#secondsSince(this.#startedAt),
    });
  }

  answered(): void {
    if (this.#startedAt === undefined) return;
    const { log, source, messages = keySourceMessages } = this.#options;
    log.message('info', messages.recovered, {
      source,
      seconds: this.#secondsSince(this.#startedAt),
    });
    this.#startedAt = undefined;
    this.#reported.reset();
  }

  #secondsSince(moment: number): number {
    return Math.round((this.#options.monotonic() - moment) / 1000);
  }
}
