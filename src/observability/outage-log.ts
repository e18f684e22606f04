import type { Logger } from './logger.ts';

/** Milliseconds between lines about the same outage. */
const repeatAfter = 300_000;

export interface OutageLogPorts {
  readonly log: Pick<Logger, 'message'>;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  /** Such as `vault`. */
  readonly source: string;
}

/**
 * Reports an outage of the key source: one error line at the beginning, again every five minutes while it lasts,
 * one info line at the end, however many reads fail meanwhile.
 */
export class OutageLog {
  readonly #ports: OutageLogPorts;
  #beganAt: number | undefined;
  #reportedAt = 0;

  constructor(ports: OutageLogPorts) {
    this.#ports = ports;
  }

  /** @param cause why, without a secret */
  failed(cause: string): void {
    const now = this.#ports.monotonic();
    if (this.#beganAt !== undefined && now - this.#reportedAt < repeatAfter) return;
    this.#beganAt ??= now;
    this.#reportedAt = now;
    const { log, source } = this.#ports;
    log.message('error', 'key source unavailable', {
      source,
      cause,
      seconds: this.#secondsSince(this.#beganAt),
    });
  }

  answered(): void {
    if (this.#beganAt === undefined) return;
    const { log, source } = this.#ports;
    log.message('info', 'key source available again', { source, seconds: this.#secondsSince(this.#beganAt) });
    this.#beganAt = undefined;
  }

  #secondsSince(moment: number): number {
    return Math.round((this.#ports.monotonic() - moment) / 1000);
  }
}
