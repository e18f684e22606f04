import { acceptsKey } from '../../request-context.ts';

/** Milliseconds. */
const recent = 60_000;
/** The last used logins. */
const limit = 1_000;

export interface VerdictCounts {
  readonly accepted: number;
  readonly rejected: number;
}

/** What the gateway said to the last request of each login: accepted, or 403. Distinguishes a bad key from a blocked instance. */
export class LoginVerdicts {
  /** The last used last. */
  readonly #last = new Map<string, { readonly at: number; readonly rejected: boolean }>();

  /** @param at monotonic, in milliseconds */
  record(at: number, login: string, gatewayStatus: number): void {
    const rejected = gatewayStatus === 403;
    if (!rejected && !acceptsKey(gatewayStatus)) return;
    this.#last.delete(login);
    this.#last.set(login, { at, rejected });
    const [oldest] = this.#last.keys();
    if (this.#last.size > limit && oldest !== undefined) this.#last.delete(oldest);
  }

  counts(now: number): VerdictCounts {
    const verdicts = [...this.#last.values()].filter(({ at }) => now - at < recent);
    const rejected = verdicts.filter((verdict) => verdict.rejected).length;
    return { accepted: verdicts.length - rejected, rejected };
  }
}
