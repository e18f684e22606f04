import type { MonotonicClock, SetTimer } from '../util/clock.ts';
import { endsWithin } from '../util/promises.ts';
import { inSpan } from '../util/trace.ts';
import { type LoginRef, loginRefString } from './login-ref.ts';

/** How long a request waits for keys, and in how large a company. */
export interface Patience {
  /** Monotonic, milliseconds. */
  readonly deadline: number;
  /** How many requests of the login may wait, so that they cannot use the slots of all others. */
  readonly maxWaiting: number;
  /** Until when all short waits of the request end, once one began; monotonic, milliseconds. */
  soon?: number;
}

export const endless: Readonly<Patience> = {
  deadline: Number.POSITIVE_INFINITY,
  maxWaiting: Number.POSITIVE_INFINITY,
};

/** Milliseconds that a request waits at most for what may give it a better key. */
const maxWait = 1_000;

interface WaitingOptions extends MonotonicClock {
  readonly setTimer: SetTimer;
}

/** Waits of requests, bounded in time, and in number by login. */
export class Waiting {
  readonly #options: WaitingOptions;
  /** How many requests of a login wait; absent where none does. */
  readonly #waiting = new Map<string, number>();

  constructor(options: WaitingOptions) {
    this.#options = options;
  }

  /** The end of all short waits of a request, of which this may be the first; monotonic, milliseconds. */
  soon(patience: Patience): number {
    const soon = patience.soon ?? Math.min(patience.deadline, this.#options.monotonic() + maxWait);
    if (patience !== endless) patience.soon = soon;
    return soon;
  }

  /** Resolves with the work, or at the deadline. */
  async until(deadline: number, work: Promise<unknown>): Promise<void> {
    if (deadline === Number.POSITIVE_INFINITY) return void (await work);
    const { monotonic, setTimer } = this.#options;
    await endsWithin(deadline - monotonic(), work, setTimer);
  }

  /** As {@link until}. @returns `false` at once, without a wait, if too many requests of the login wait */
  inCompany(
    login: LoginRef,
    patience: Patience,
    work: Promise<unknown>,
    until = patience.deadline,
  ): Promise<boolean> {
    return inSpan('wait for another request', () => this.#bounded(login, patience, work, until));
  }

  async #bounded(
    login: LoginRef,
    { maxWaiting }: Patience,
    work: Promise<unknown>,
    until: number,
  ): Promise<boolean> {
    const name = loginRefString(login);
    const others = this.#waiting.get(name) ?? 0;
    if (others >= maxWaiting) return false;
    this.#waiting.set(name, others + 1);
    try {
      await this.until(until, work);
    } finally {
      const left = (this.#waiting.get(name) ?? 1) - 1;
      if (left > 0) this.#waiting.set(name, left);
      else this.#waiting.delete(name);
    }
    return true;
  }

  /**
   * Waits for keys that are not cached: also in the company of other logins, since a caller can invent any number of
   * them. The work ends by itself. @returns as {@link inCompany}
   */
  async forUncached(login: LoginRef, patience: Patience, work: Promise<unknown>): Promise<boolean> {
    const all = { environment: login.environment, login: '' };
    const ofAll = { ...patience, maxWaiting: 2 * patience.maxWaiting };
    let hasRoom = false;
    const wait = async (): Promise<void> => {
      hasRoom = await this.#bounded(login, patience, work, Number.POSITIVE_INFINITY);
    };
    return (await this.#bounded(all, ofAll, wait(), Number.POSITIVE_INFINITY)) && hasRoom;
  }
}
