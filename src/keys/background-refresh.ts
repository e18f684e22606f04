import type { SetTimer } from '../util/timer.ts';
import type { LoginRef } from './key-source.ts';

/** Reads that are in flight at once, for all logins together. */
const batchSize = 16;
/** Milliseconds between one batch and the next, plus as much by chance: instances do not read in step. */
const pause = 1_000;

export interface BackgroundRefreshPorts {
  readonly setTimer: SetTimer;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** At most so many logins whose rings are due, the most overdue first. Called before each batch. */
  readonly due: (limit: number) => readonly LoginRef[];
  /** Reads an address once more, in the background. Never rejects. */
  readonly read: (address: LoginRef) => Promise<void>;
}

/**
 * Reads rings in use again without a request for their login, so that the cache, the metrics and the alerts follow
 * what the key source holds. A batch begins when the batch before it has ended: a slow source is read more slowly.
 */
export class BackgroundRefresh {
  readonly #ports: BackgroundRefreshPorts;
  #cancel: (() => void) | undefined;
  #stopped = false;

  constructor(ports: BackgroundRefreshPorts) {
    this.#ports = ports;
  }

  start(): void {
    const { setTimer, random } = this.#ports;
    this.#cancel = setTimer(() => void this.#readBatch(), pause * (1 + random()));
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel?.();
  }

  async #readBatch(): Promise<void> {
    const { due, read } = this.#ports;
    await Promise.all(due(batchSize).map((address) => read(address)));
    if (!this.#stopped) this.start();
  }
}
