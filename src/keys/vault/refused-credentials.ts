import type { BackoffOptions } from '../../util/backoff.ts';
import type { TokenLease } from './auth-api.ts';
import type { Credentials } from './auth-methods.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { isVaultError, VaultError } from './errors.ts';

/** They rarely get better by themselves. */
const range = { initial: 30_000, max: 300_000 };

/** Keeps credentials that Vault refused from being tried again and again; other ones are tried at once. */
export class RefusedCredentials {
  readonly #gate: CircuitBreaker;
  #fingerprint: string | undefined;

  constructor(ports: BackoffOptions) {
    this.#gate = new CircuitBreaker(ports, range);
  }

  /** @throws VaultError `backing-off`, `bad-credentials`, and as the login does */
  async logIn(credentials: Credentials, method: string): Promise<TokenLease> {
    if (this.#fingerprint !== credentials.fingerprint) this.#gate.reset();
    this.#gate.assertClosed();
    try {
      const lease = await credentials.logIn();
      this.#gate.reset();
      return lease;
    } catch (error) {
      if (!isVaultError(error, 'rejected', 'denied')) throw error;
      const status = error.status === undefined ? {} : { status: error.status };
      const refusal = new VaultError('bad-credentials', { ...status, note: method });
      this.#fingerprint = credentials.fingerprint;
      this.#gate.trip(refusal);
      throw refusal;
    }
  }
}
