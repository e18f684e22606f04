import type { VaultConfig } from '../../config/schema.ts';
import { type SourceState, SourceUnavailable } from '../errors.ts';
import type { KeySource, LoginRef } from '../key-source.ts';
import { connectVault, type VaultOptions } from './connect.ts';
import { isVaultError, rootOf } from './errors.ts';
import { identityOf, type ReadVersion, readRing } from './read-ring.ts';
import { loginProblem } from './token-manager.ts';

/** How far a read got. */
type Step = 'login' | 'reading';

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

  async function reading<T>(login: LoginRef, work: (read: ReadVersion) => Promise<T>): Promise<T> {
    let step: Step = 'login';
    try {
      return await vault.withToken((kv, token) => {
        step = 'reading';
        return work((version) => kv.read(token, login, version));
      });
    } catch (error) {
      throw new SourceUnavailable(login, error, stateOf(error, step), problemOf(error, step));
    }
  }

  return {
    read: (login, known = [], isSearch = false) =>
      reading(login, (readVersion) => {
        const gracePeriodBegan = options.clock() - rotationGracePeriod;
        return readRing(readVersion, { gracePeriodBegan, known, isSearch });
      }),
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

/** As the login to Vault reports it, so that both are one cause in the log. */
function problemOf(error: unknown, step: Step): string {
  const root = rootOf(error);
  const message = root instanceof Error ? root.message : 'unknown';
  // A revoked token is replaced while a key is read.
  const isLogin = step === 'login' || isVaultError(root, 'bad-credentials', 'no-credentials');
  return isLogin ? loginProblem(message) : message;
}

/** Without a token none can be read. */
function stateOf(error: unknown, step: Step): SourceState {
  if (step === 'login') return 'down';
  if (isVaultError(error, 'backing-off')) return 'unknown';
  if (isVaultError(error, 'denied')) return 'denied';
  return isVaultError(error, 'rejected', 'unexpected-content', 'too-large') ? 'up' : 'down';
}
