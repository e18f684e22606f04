import type { BackoffOptions } from '../../util/backoff.ts';
import type { TokenLease } from './auth-api.ts';
import type { Credentials } from './auth-methods.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { isVaultError, VaultError } from './errors.ts';

/** Milliseconds. Long, since rejected credentials rarely become valid again. */
const range = { initial: 30_000, max: 300_000 };

/** A circuit breaker for credentials that Vault rejected. Changed credentials are tried at once. */
export class RejectedCredentials {
  readonly #breaker: CircuitBreaker;
  #fingerprint: string | undefined;

  constructor(options: BackoffOptions) {
    this.#breaker = new CircuitBreaker(options, range);
  }

  /** @throws VaultError `backing-off`, `bad-credentials`, and as the login does */
  async logIn(credentials: Credentials, method: string): Promise<TokenLease> {
    if (this.#fingerprint !== credentials.fingerprint) this.#breaker.reset();
    this.#breaker.assertClosed();
    try {
      const lease = await credentials.logIn();
      this.#breaker.reset();
      return lease;
    } catch (error) {
      if (!isVaultError(error, 'rejected', 'denied')) throw error;
      const status = error.status === undefined ? {} : { status: error.status };
      const rejection = new VaultError('bad-credentials', { ...status, note: method });
      this.#fingerprint = credentials.fingerprint;
      this.#breaker.trip(rejection);
      throw rejection;
    }
  }
}
