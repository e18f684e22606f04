import type { Randomness, SetTimer } from '../util/clock.ts';
import type { LoginRef } from './key-source.ts';

/** Maximum number of concurrent reads, over all logins. */
const batchSize = 16;
/** Milliseconds between batches, plus up to as much jitter, so that instances do not read in step. */
const pause = 1_000;

export interface BackgroundRefreshOptions extends Randomness {
  readonly setTimer: SetTimer;
  /** At most `limit` logins that are due for a refresh, the most overdue first. Called before each batch. */
  readonly due: (limit: number) => readonly LoginRef[];
  /** Refreshes a login's keys in the background. Never rejects. */
  readonly read: (login: LoginRef) => Promise<void>;
}

/**
 * Refreshes the key rings in use without waiting for a request, so that cache, metrics and alerts follow the key
 * source. A batch starts when the previous one has ended: a slow source is read more slowly.
 */
export class BackgroundRefresh {
  readonly #options: BackgroundRefreshOptions;
  #cancel: (() => void) | undefined;
  #stopped = false;

  constructor(options: BackgroundRefreshOptions) {
    this.#options = options;
  }

  start(): void {
    const { setTimer, random } = this.#options;
    this.#cancel = setTimer(() => void this.#readBatch(), pause * (1 + random()));
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel?.();
  }

  async #readBatch(): Promise<void> {
    const { due, read } = this.#options;
    await Promise.all(due(batchSize).map((login) => read(login)));
    if (!this.#stopped) this.start();
  }
}
