import type { MonotonicClock } from '../util/clock.ts';
import type { Logger } from './logger.ts';

/** Milliseconds between lines about the same outage. */
const repeatAfter = 300_000;

const ofKeySource = { failed: 'key source unavailable', answered: 'key source available again' };

export interface OutageLogOptions extends MonotonicClock {
  readonly log: Pick<Logger, 'message'>;
  /** Default: those of the key source. */
  readonly messages?: { readonly failed: string; readonly answered: string };
  readonly source: string;
}

/**
 * Logs an outage, as of the key source: an error line at the beginning and every five minutes, and an info line at the
 * end, however many reads fail.
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
    const { log, source, messages = ofKeySource } = this.#options;
    log.message('error', messages.failed, {
      source,
      cause,
      seconds: this.#secondsSince(this.#startedAt),
    });
  }

  answered(): void {
    if (this.#startedAt === undefined) return;
    const { log, source, messages = ofKeySource } = this.#options;
    log.message('info', messages.answered, {
      source,
      seconds: this.#secondsSince(this.#startedAt),
    });
    this.#startedAt = undefined;
  }

  #secondsSince(moment: number): number {
    return Math.round((this.#options.monotonic() - moment) / 1000);
  }
}
