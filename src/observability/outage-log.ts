import type { MonotonicClock } from '../util/clock.ts';
import type { Logger } from './logger.ts';

/** Milliseconds between lines about the same outage. */
const repeatAfter = 300_000;

export interface OutageLogOptions extends MonotonicClock {
  readonly log: Pick<Logger, 'message'>;
  readonly source: string;
  /** Default: those of the key source. */
  readonly messages?: { readonly failed: string; readonly recovered: string };
}

const keySourceMessages = { failed: 'key source unavailable', recovered: 'key source available again' };

/**
 * Logs an outage, by default of the key source: an error line at the beginning and every five minutes, and an info line at the
 * end, however many attempts fail.
 */
export class OutageLog {
  readonly #options: OutageLogOptions;
  #startedAt: number | undefined;
  #reportedAt = 0;

  constructor(options: OutageLogOptions) {
    this.#options = options;
  }

  /** @param cause why; must not contain a secret */
  failed(cause: string): void {
    const now = this.#options.monotonic();
    if (this.#startedAt !== undefined && now - this.#reportedAt < repeatAfter) return;
    this.#startedAt ??= now;
    this.#reportedAt = now;
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
  }

  #secondsSince(moment: number): number {
    return Math.round((this.#options.monotonic() - moment) / 1000);
  }
}
