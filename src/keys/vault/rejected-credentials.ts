import { Backoff, type BackoffOptions } from '../../util/backoff.ts';
import type { TokenLease } from './auth-api.ts';
import type { Credentials } from './auth-methods.ts';
import { assertDue } from './circuit-breaker.ts';
import { isVaultError, VaultError } from './errors.ts';

/** Milliseconds. Long, since rejected credentials rarely become valid again. */
const range = { initial: 30_000, max: 300_000 };

/**
 * Logs in, unless Vault has just rejected these credentials. Changed ones are tried at once.
 *
 * The returned function throws VaultError `backing-off`, `bad-credentials`, and as the login does.
 */
export function createLogin({
  monotonic,
  random,
}: BackoffOptions): (credentials: Credentials, method: string) => Promise<TokenLease> {
  const rejected = new Backoff(range, random);
  let last: VaultError | undefined;
  return async ({ fingerprint, logIn }, method) => {
    assertDue(rejected, monotonic(), last, fingerprint);
    try {
      const lease = await logIn();
      rejected.reset();
      return lease;
    } catch (error) {
      if (!isVaultError(error, 'rejected', 'denied')) throw error;
      const status = error.status === undefined ? {} : { status: error.status };
      last = new VaultError('bad-credentials', { ...status, note: method });
      rejected.recordFailure(monotonic(), {}, fingerprint);
      throw last;
    }
  };
}
