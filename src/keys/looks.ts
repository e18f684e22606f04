import type { MonotonicClock } from '../util/clock.ts';
import { type LoginRef, loginRefString } from './login-ref.ts';
import type { KeyRing } from './ring.ts';

/** Milliseconds between two looks at a login's keys. */
const interval = 1_000;
/** As {@link interval}, for a key that is not urgent. */
const rareInterval = 30_000;
/** The most looks in one second, at all logins together. */
const maxPerSecond = 30;
/** Milliseconds until a login that needs no look anymore is not counted. */
const forgetAfter = 5_000;

/** A read of a login's current keys, past the cache, because the gateway rejects a key. */
export interface Look {
  /** Monotonic, milliseconds. */
  readonly beganAt: number;
  readonly ring: Promise<KeyRing | undefined>;
  /** Absent while it is in flight. Monotonic, milliseconds. */
  endedAt?: number;
}

interface LooksOptions extends MonotonicClock {
  /** Reads past the cache. */
  readonly look: (login: LoginRef) => Promise<KeyRing | undefined>;
}

/**
 * When to look whether the key source has a key that the gateway accepts: at each login once a second, as long as
 * requests need it, so that a key that a person stores is used at once. Where more than 30 logins need it, they take
 * turns. Shared by both kinds of a login's keys.
 */
export class Looks {
  readonly #options: LooksOptions;
  /** The last look at each login, the latest last. */
  readonly #last = new Map<string, Look>();
  /** When each login last needed a look, the latest last. */
  readonly #needed = new Map<string, number>();
  /** When the last looks began, the latest last. */
  #begun: number[] = [];
  #interval = interval;

  constructor(options: LooksOptions) {
    this.#options = options;
  }

  /** Seconds between two looks at one login. */
  get interval(): number {
    this.#count(this.#options.monotonic());
    return this.#interval / 1_000;
  }

  /** The look in flight, or of the last interval: no other one may begin. */
  recent(login: LoginRef): Look | undefined {
    const last = this.#last.get(loginRefString(login));
    const isRecent =
      last && (last.endedAt === undefined || this.#options.monotonic() < last.beganAt + this.#interval);
    return isRecent ? last : undefined;
  }

  isDue(login: LoginRef, isUrgent: boolean): boolean {
    const now = this.#options.monotonic();
    this.#need(loginRefString(login), now);
    const last = this.#last.get(loginRefString(login));
    if (last !== undefined && now < last.beganAt + Math.max(isUrgent ? 0 : rareInterval, this.#interval))
      return false;
    const [first] = this.#begun;
    return this.#begun.length < maxPerSecond || first === undefined || now >= first + 1_000;
  }

  begin(login: LoginRef): Look {
    const beganAt = this.#options.monotonic();
    this.#begun = [...this.#begun.slice(1 - maxPerSecond), beganAt];
    const look: Look = { beganAt, ring: this.#options.look(login) };
    const end = (): void => {
      look.endedAt = this.#options.monotonic();
    };
    look.ring.then(end, end);
    const name = loginRefString(login);
    this.#last.delete(name);
    this.#last.set(name, look);
    this.#forget(beganAt);
    return look;
  }

  /** Lets each login be looked at again at once. */
  reset(): void {
    this.#last.clear();
  }

  /** Looks after which each login may be looked at again. */
  #forget(now: number): void {
    for (const [name, { beganAt, endedAt }] of this.#last) {
      if (endedAt === undefined || now < beganAt + Math.max(rareInterval, this.#interval)) break;
      this.#last.delete(name);
    }
  }

  #need(name: string, now: number): void {
    this.#needed.delete(name);
    this.#needed.set(name, now);
    this.#count(now);
  }

  /** More logins than the limit per second take turns: each of them is looked at less often. */
  #count(now: number): void {
    for (const [other, neededAt] of this.#needed) {
      if (now < neededAt + Math.max(forgetAfter, 2 * this.#interval)) break;
      this.#needed.delete(other);
    }
    this.#interval = Math.max(interval, (this.#needed.size * 1_000) / maxPerSecond);
  }
}
