import { Backoff, type BackoffOptions, type BackoffRange } from '../../util/backoff.ts';
import type { TokenLease } from './auth-api.ts';
import type { AuthMethod, Credentials } from './auth-methods.ts';
import { assertDue } from './circuit-breaker.ts';
import { isVaultError, VaultError } from './errors.ts';

/**
 * Milliseconds. Long where a rejection may cost something: Vault locks an AppRole after five, and a secret ID has limited
 * uses. Kubernetes rejects a valid token while its API server is away.
 */
const ranges: Readonly<Record<AuthMethod['name'], BackoffRange>> = {
  approle: { initial: 30_000, max: 300_000 },
  token: { initial: 30_000, max: 300_000 },
  kubernetes: { initial: 1000, max: 2000 },
};

/**
 * Logs in, unless Vault has just rejected these credentials. Changed ones are tried at once.
 *
 * The returned function throws VaultError `backing-off`, `bad-credentials`, `spent-wrapping`, and as the login does.
 */
export function createLogin(
  method: AuthMethod['name'],
  { monotonic, random }: BackoffOptions,
): (credentials: Credentials) => Promise<TokenLease> {
  const rejected = new Backoff(ranges[method], random);
  let last: VaultError | undefined;
  return async ({ fingerprint, logIn }) => {
    assertDue(rejected, monotonic(), last, fingerprint);
    try {
      const lease = await logIn();
      rejected.reset();
      return lease;
    } catch (error) {
      if (!isVaultError(error, 'rejected', 'denied', 'spent-wrapping')) throw error;
      const status = error.status === undefined ? {} : { status: error.status };
      const rejection = () => new VaultError('bad-credentials', { ...status, note: method });
      last = error.kind === 'spent-wrapping' ? error : rejection();
      rejected.recordFailure(monotonic(), {}, fingerprint);
      throw last;
    }
  };
}
