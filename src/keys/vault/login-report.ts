import type { KeySourceObserver } from '../key-source.ts';
import { isVaultError } from './errors.ts';

/** Milliseconds after which a lasting problem is reported again. */
const repeatAfter = 300_000;

interface Report {
  readonly problem: string;
  readonly at: number;
  readonly inUse: boolean;
}

/** Reports failed logins to Vault, without repeating the same problem too often. */
export class LoginReport {
  readonly #events: Pick<KeySourceObserver, 'keyProblem' | 'loginFailed'>;
  readonly #monotonic: () => number;
  #last: Report | undefined;

  /** @param monotonic milliseconds, never set back */
  constructor(events: Pick<KeySourceObserver, 'keyProblem' | 'loginFailed'>, monotonic: () => number) {
    this.#events = events;
    this.#monotonic = monotonic;
  }

  /** @param inUse whether there is a valid token, so that keys can still be read */
  failed(error: unknown, inUse: boolean): void {
    if (isVaultError(error, 'backing-off')) return;
    const problem = `Vault login failed: ${error instanceof Error ? error.message : 'unknown'}`;
    const at = this.#monotonic();
    const isSame = this.#last?.problem === problem && this.#last.inUse === inUse;
    if (isSame && at - (this.#last?.at ?? 0) < repeatAfter) return;
    this.#last = { problem, at, inUse };
    if (inUse) this.#events.keyProblem(problem);
    else this.#events.loginFailed(problem);
  }

  succeeded(): void {
    this.#last = undefined;
  }
}
