import type { KeysConfig } from '../config/schema.ts';
import { createDirectorySource } from '../keys/directory/source.ts';
import type { KeySource, KeySourceObserver, SigningObserver } from '../keys/key-source.ts';
import { connectVault, type VaultOptions } from '../keys/vault/connection.ts';
import { createVaultSource } from '../keys/vault/source.ts';

/** Creates the configured key source without starting it. */
export function createKeySource(keys: KeysConfig, options: VaultOptions): KeySource {
  return keys.source === 'vault'
    ? createVaultSource(connectVault(keys.vault, options), keys.rotationGracePeriod, options)
    : createDirectorySource({
        directory: keys.directory,
        rotationGracePeriod: keys.rotationGracePeriod,
        now: options.clock,
      });
}

const ignore = (): void => {};

/** For commands, which have no metrics. */
export const silentObserver: KeySourceObserver & SigningObserver = {
  keyLookup: ignore,
  keyFetched: ignore,
  keyRingUpdated: ignore,
  loginsNotFound: ignore,
  keySourceUp: ignore,
  loginsDenied: ignore,
  cachedKeysExpire: ignore,
  tokenExpiryChanged: ignore,
  transitSigned: ignore,
  loginFailed: ignore,
  keyProblem: ignore,
};
