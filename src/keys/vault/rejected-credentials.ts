import type { BackoffOptions } from '../../util/backoff.ts';
import type { TokenLease } from './auth-api.ts';
import type { Credentials } from './auth-methods.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { isVaultError, VaultError } from './errors.ts';

/** Milliseconds. Long, since rejected credentials rarely become valid again. */
const range = { initial: 30_000, max: 300_000 };

/**
 * Logs in, with a circuit breaker for credentials that Vault rejected. Changed credentials are tried at once.
 *
 * The returned function throws VaultError `backing-off`, `bad-credentials`, and as the login does.
 */
export function createLogin(
  options: BackoffOptions,
): (credentials: Credentials, method: string) => Promise<TokenLease> {
  const breaker = new CircuitBreaker(options, range);
  let rejected: string | undefined;
  return async (credentials, method) => {
    const { fingerprint } = credentials;
    if (rejected !== fingerprint) breaker.reset();
    breaker.assertClosed();
    try {
      const lease = await credentials.logIn();
      breaker.reset();
      return lease;
    } catch (error) {
      if (!isVaultError(error, 'rejected', 'denied')) throw error;
      const status = error.status === undefined ? {} : { status: error.status };
      const rejection = new VaultError('bad-credentials', { ...status, note: method });
      rejected = fingerprint;
      breaker.trip(rejection);
      throw rejection;
    }
  };
}
