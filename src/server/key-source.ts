import type { KeysConfig } from '../config/schema.ts';
import { DirectorySource } from '../keys/directory/source.ts';
import type { KeySource, KeySourceObserver, SigningObserver } from '../keys/key-source.ts';
import { createVaultSource } from '../keys/vault/source.ts';
import type { TlsMaterial } from '../tls/material.ts';
import type { BackoffOptions } from '../util/backoff.ts';
import type { WallClock } from '../util/clock.ts';
import type { TlsObserver } from '../util/tls-observer.ts';
import { system } from './system.ts';

export interface KeySourceOptions extends BackoffOptions, WallClock {
  readonly events: KeySourceObserver & SigningObserver;
  /** Certificates for Vault; by default read from the files of the configuration. */
  readonly tls?: TlsMaterial;
  /** TLS with Vault failed: its certificate may have a new CA. */
  readonly tlsFailed?: () => void;
  readonly tlsObserver?: TlsObserver;
}

/** Creates the configured key source without starting it. */
export function createKeySource(keys: KeysConfig, options: KeySourceOptions): KeySource {
  return keys.source === 'vault'
    ? createVaultSource(keys.vault, keys.rotationGracePeriod, options)
    : new DirectorySource({
        directory: keys.directory,
        rotationGracePeriod: keys.rotationGracePeriod,
        now: options.clock,
      });
}

/** Opens the key source for a command. */
export async function withKeySource<T>(
  keys: KeysConfig,
  report: (problem: string) => void,
  work: (source: KeySource) => Promise<T>,
): Promise<T> {
  const source = createKeySource(keys, {
    ...system,
    events: { ...silentObserver, loginFailed: report, keyProblem: report },
  });
  source.start();
  try {
    return await work(source);
  } finally {
    await source.stop();
  }
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
