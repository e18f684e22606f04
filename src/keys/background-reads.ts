import { Backoff, type BackoffOptions } from '../util/backoff.ts';
import type { SetTimer } from '../util/clock.ts';
import type { LoginRef } from './key-source.ts';
import { loginRefString } from './login-ref.ts';

/** Maximum number of concurrent reads of a batch, over all logins. */
const batchSize = 16;
/** Milliseconds between batches, plus up to as much jitter, so that instances do not read in step. */
const pause = 1_000;
/** Milliseconds between probes of a failing source. */
const probes = { initial: 1000, max: 10_000 };
/** Logins that are refreshed together, and milliseconds between groups, plus up to as much jitter. */
const group = { size: 8, every: 100 };

interface BackgroundReadOptions extends BackoffOptions {
  readonly setTimer: SetTimer;
  /** Reads a login's keys in the background. Never rejects. */
  readonly read: (login: LoginRef) => Promise<void>;
}

interface BackgroundRefreshOptions extends BackgroundReadOptions {
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

/** Milliseconds in which each denied login is probed, as far as the limits between two probes permit that. */
const probeRound = 2_000;
const probeInterval = { min: 100, max: 1_000 };
/** Milliseconds after its last use in which a denied login is probed. */
const recentUse = 600_000;
/** Milliseconds between releases, while logins are still denied after each. */
const releaseRange = { initial: 1000, max: 60_000 };

interface DeniedLoginsOptions extends BackgroundReadOptions {
  /** Maximum number of logins to remember. */
  readonly limit: number;
  /** These logins may be read again. */
  readonly released: (logins: readonly LoginRef[]) => void;
  /** @param cause of the latest denial */
  readonly changed: (logins: number, cause: string) => void;
}

interface Denial {
  readonly login: LoginRef;
  readonly cause: string;
  readonly usedAt: number;
  /** Another login was permitted since, so it may be read once. */
  readonly released: boolean;
}

/**
 * The logins that the key source denies, which are not read at each request: they are probed in turn, one after the
 * other each second, or up to ten if there are many. When the source permits one, the policy may have been corrected,
 * and all may be read again.
 */
export class DeniedLogins {
  readonly #options: DeniedLoginsOptions;
  readonly #releases: Backoff;
  /** By name, the next to probe first. */
  readonly #denials = new Map<string, Denial>();
  #probing: string | undefined;
  #cancel: (() => void) | undefined;
  #stopped = false;

  constructor(options: DeniedLoginsOptions) {
    this.#options = options;
    this.#releases = new Backoff(releaseRange, options.random);
  }

  /** Why a login may not be read now; `undefined`: it may. */
  blockOf(login: LoginRef): string | undefined {
    const name = loginRefString(login);
    const denial = this.#denials.get(name);
    if (denial === undefined || denial.released || name === this.#probing) return undefined;
    this.#denials.set(name, { ...denial, usedAt: this.#options.monotonic() });
    return denial.cause;
  }

  /** @returns whether it was permitted until now */
  deny(login: LoginRef, cause: string): boolean {
    const name = loginRefString(login);
    const usedAt = this.#denials.get(name)?.usedAt ?? this.#options.monotonic();
    const isNew = !this.#denials.delete(name);
    this.#denials.set(name, { login, cause, usedAt, released: false });
    const [oldest] = this.#denials.keys();
    if (this.#denials.size > this.#options.limit && oldest !== undefined) this.#denials.delete(oldest);
    this.#options.changed(this.#denials.size, cause);
    this.#scheduleProbe();
    return isNew;
  }

  permit(login: LoginRef): void {
    if (!this.#remove(loginRefString(login))) return;
    const now = this.#options.monotonic();
    if (this.#denials.size === 0) this.#releases.reset();
    else if (this.#releases.isDue(now)) {
      this.#releases.recordFailure(now);
      this.#options.released(this.#release());
    }
  }

  /** Takes over the denials of another source of the same secrets, which may permit more. */
  adopt(other: DeniedLogins): void {
    for (const { login, cause } of other.#denials.values()) this.deny(login, cause);
    this.#release();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel?.();
  }

  #release(): LoginRef[] {
    for (const [name, denial] of this.#denials) this.#denials.set(name, { ...denial, released: true });
    return Array.from(this.#denials.values(), ({ login }) => login);
  }

  #remove(name: string): boolean {
    const cause = this.#denials.get(name)?.cause;
    if (cause === undefined) return false;
    this.#denials.delete(name);
    this.#options.changed(this.#denials.size, cause);
    return true;
  }

  #scheduleProbe(): void {
    if (this.#stopped || this.#cancel !== undefined || this.#denials.size === 0) return;
    const { min, max } = probeInterval;
    const interval = Math.min(max, Math.max(min, probeRound / this.#denials.size));
    this.#cancel = this.#options.setTimer(() => void this.#probe(), interval);
  }

  async #probe(): Promise<void> {
    const next = this.#next();
    if (next !== undefined) {
      const [name, denial] = next;
      this.#denials.delete(name);
      this.#denials.set(name, denial);
      this.#probing = name;
      await this.#options.read(denial.login);
      this.#probing = undefined;
    }
    this.#cancel = undefined;
    this.#scheduleProbe();
  }

  /** Forgets logins that are no longer used: nothing would end their denial. */
  #next(): [string, Denial] | undefined {
    const oldest = this.#options.monotonic() - recentUse;
    for (const [name, denial] of this.#denials) {
      if (denial.usedAt >= oldest) return [name, denial];
      this.#remove(name);
    }
    return undefined;
  }
}
