import { Backoff, type BackoffOptions } from '../util/backoff.ts';
import type { SetTimer } from '../util/clock.ts';
import type { LoginRef } from './login-ref.ts';

/** Maximum number of concurrent reads of a batch, over all logins. */
const batchSize = 16;
/** Milliseconds between batches, plus up to as much jitter, so that instances do not read in step. */
const pause = 1_000;
/** Milliseconds between probes of a failing source. */
const probes = { initial: 1000, max: 10_000 };
/** Logins that are refreshed together, and milliseconds between groups, plus up to as much jitter. */
const group = { size: 8, every: 100 };

interface BackgroundRefreshOptions extends BackoffOptions {
  readonly setTimer: SetTimer;
  /** Reads a login's keys in the background. Never rejects. */
  readonly read: (login: LoginRef) => Promise<void>;
  /** At most `limit` logins that are due for a refresh, the most overdue first. Called before each batch. */
  readonly due: (limit: number) => readonly LoginRef[];
  /** Logins to refresh when the source is back, the most urgent first. */
  readonly outdated: () => readonly LoginRef[];
}

/**
 * Refreshes the key rings in use without waiting for a request, so that cache, metrics and alerts follow the key
 * source. A batch starts when the previous one has ended: a slow source is read more slowly.
 *
 * Probes a failing source, so that its recovery is noticed without requests, and then refreshes the rings in use: a key
 * that changed during the outage would otherwise be found by a 403.
 */
export class BackgroundRefresh {
  readonly #options: BackgroundRefreshOptions;
  readonly #backoff: Backoff;
  #failing = false;
  #stopped = false;
  #cancelBatch: (() => void) | undefined;
  /** Cancels the next probe or group. */
  #cancel: (() => void) | undefined;
  /** Logins to refresh in groups. */
  #pending: LoginRef[] = [];

  constructor(options: BackgroundRefreshOptions) {
    this.#options = options;
    this.#backoff = new Backoff(probes, options.random);
  }

  /** Starts the batches; probes and groups need no start. */
  start(): void {
    const { setTimer, random } = this.#options;
    this.#cancelBatch = setTimer(() => void this.#readBatch(), pause * (1 + random()));
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelBatch?.();
    this.#cancelNext();
  }

  /** Whether the last read failed because the source was unavailable. */
  get failing(): boolean {
    return this.#failing;
  }

  recordFailure(login: LoginRef): void {
    // A pending refresh would only be another probe.
    if (!this.#failing) this.#cancelNext();
    this.#pending = [];
    this.#failing = true;
    if (this.#cancel !== undefined) return;
    const now = this.#options.monotonic();
    this.#backoff.recordFailure(now);
    this.#later(this.#backoff.remaining(now), () => void this.#probe(login));
  }

  recordSuccess(): void {
    if (!this.#failing) return;
    this.#failing = false;
    this.#backoff.reset();
    this.#cancelNext();
    this.refresh(this.#options.outdated());
  }

  /** Refreshes these logins, a few at a time. While the source fails, only its recovery does. */
  refresh(logins: readonly LoginRef[]): void {
    if (this.#failing) return;
    this.#pending.push(...logins);
    if (this.#cancel === undefined) this.#refreshPending();
  }

  async #readBatch(): Promise<void> {
    const { due, read } = this.#options;
    await Promise.all(due(batchSize).map((login) => read(login)));
    if (!this.#stopped) this.start();
  }

  async #probe(login: LoginRef): Promise<void> {
    await this.#options.read(login);
    // The read may have ended without reaching the source, which says nothing about it.
    if (this.#failing) this.recordFailure(login);
  }

  #refreshPending(): void {
    if (this.#pending.length === 0) return;
    this.#later(group.every * (1 + this.#options.random()), () => {
      for (const login of this.#pending.splice(0, group.size)) void this.#options.read(login);
      this.#refreshPending();
    });
  }

  #later(milliseconds: number, run: () => void): void {
    if (this.#stopped) return;
    this.#cancel = this.#options.setTimer(() => {
      this.#cancel = undefined;
      run();
    }, milliseconds);
  }

  #cancelNext(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}
