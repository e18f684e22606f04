import type { VaultConfig } from '../../config/schema.ts';
import { Backoff } from '../../util/backoff.ts';
import { type SourceState, SourceUnavailable } from '../errors.ts';
import type { KeySource, LoginRef } from '../key-source.ts';
import { loginRefString } from '../login-ref.ts';
import { assertDue } from './circuit-breaker.ts';
import { connectVault, type VaultOptions } from './connect.ts';
import { isVaultError, type VaultError } from './errors.ts';
import { identityOf, type ReadVersion, readRing } from './read-ring.ts';

/** Milliseconds between reads of a login that Vault's policy denies. */
const deniedRange = { initial: 1000, max: 60_000 };

/** How far a read got. */
type Step = 'before' | 'login' | 'reading';

/**
 * Reads keys from Vault's KV version 2, with one secret per login.
 *
 * @param rotationGracePeriod milliseconds during which a superseded version stays in the ring
 * @throws as {@link connectVault}
 */
export function createVaultSource(
  config: VaultConfig,
  rotationGracePeriod: number,
  options: VaultOptions,
): KeySource {
  const vault = connectVault(config, options);
  const denied = new Backoff(deniedRange, options.random);
  let denial: VaultError | undefined;

  async function reading<T>(login: LoginRef, work: (read: ReadVersion) => Promise<T>): Promise<T> {
    const name = loginRefString(login);
    let step: Step = 'before';
    try {
      assertDue(denied, options.monotonic(), denial, name);
      step = 'login';
      const result = await vault.withToken((kv, token) => {
        step = 'reading';
        return work((version) => kv.read(token, login, version));
      });
      denied.reset(name);
      return result;
    } catch (error) {
      if (isVaultError(error, 'denied')) {
        denial = error;
        denied.recordFailure(options.monotonic(), {}, name);
      }
      throw new SourceUnavailable(login, error, stateOf(error, step));
    }
  }

  return {
    read: (login, known = []) =>
      reading(login, (readVersion) => readRing(readVersion, options.clock() - rotationGracePeriod, known)),
    async readCurrent(login) {
      const current = await reading(login, (readVersion) => readVersion());
      return current === undefined ? 'not-found' : identityOf(current);
    },
    start: () => vault.tokens.start(),
    ready: () => vault.tokens.loggedInOnce,
    useTls: (material) => vault.useTls(material),
    stop: () => vault.close(),
  };
}

/** A denied login says nothing about other logins; without a token none can be read. */
function stateOf(error: unknown, step: Step): SourceState {
  if (step === 'before') return 'unknown';
  if (step === 'login') return 'down';
  if (isVaultError(error, 'backing-off')) return 'unknown';
  return isVaultError(error, 'denied', 'rejected', 'unexpected-content', 'too-large') ? 'up' : 'down';
}
