import type { MonotonicClock } from '../util/clock.ts';
import type { KeyRing, LoginRef } from './key-source.ts';
import { loginRefString } from './login-ref.ts';

/** Milliseconds between two reads of a login's ring past the cache. */
const interval = 1_000;

/** A read of a ring past the cache. */
export interface RingRefresh {
  readonly beganAt: number;
  readonly ring: Promise<KeyRing | undefined>;
  isOver: boolean;
}

export interface RingRefreshesOptions extends MonotonicClock {
  /** Reads past the cache. */
  readonly refresh: (login: LoginRef) => Promise<KeyRing | undefined>;
}

/** The last read of each login's ring past the cache, shared by both kinds of its keys. */
export class RingRefreshes {
  readonly #options: RingRefreshesOptions;
  readonly #last = new Map<string, RingRefresh>();

  constructor(options: RingRefreshesOptions) {
    this.#options = options;
  }

  /** The refresh of the last second, during which no other one may begin. */
  recent(login: LoginRef): RingRefresh | undefined {
    const last = this.#last.get(loginRefString(login));
    return last !== undefined && this.#options.monotonic() < last.beganAt + interval ? last : undefined;
  }

  begin(login: LoginRef): RingRefresh {
    const beganAt = this.#options.monotonic();
    const refresh: RingRefresh = { beganAt, ring: this.#options.refresh(login), isOver: false };
    const end = (): void => {
      refresh.isOver = true;
    };
    refresh.ring.then(end, end);
    this.#last.set(loginRefString(login), refresh);
    return refresh;
  }
}
