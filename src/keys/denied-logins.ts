import { Backoff, type BackoffOptions } from '../util/backoff.ts';
import type { SetTimer } from '../util/clock.ts';
import { type LoginRef, loginRefString } from './login-ref.ts';

/** Milliseconds in which each denied login is probed, as far as the limits between two probes permit that. */
const probeRound = 2_000;
const probeInterval = { min: 100, max: 1_000 };
/** Milliseconds after its last use in which a denied login is probed. */
const recentUse = 600_000;
/** Milliseconds between releases, while logins are still denied after each. */
const releaseRange = { initial: 1000, max: 60_000 };

interface DeniedLoginsOptions extends BackoffOptions {
  readonly setTimer: SetTimer;
  /** Reads a login's keys in the background. Never rejects. */
  readonly read: (login: LoginRef) => Promise<void>;
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
