import type { KeysConfig } from '../config/schema.ts';
import { DirectorySource } from '../keys/directory/source.ts';
import type { KeyRing, KeySource, KeySourceObserver, LoginRef } from '../keys/key-source.ts';
import { ringIn } from '../keys/ring.ts';
import { createVaultSource } from '../keys/vault/source.ts';
import type { TlsMaterial } from '../tls/material.ts';
import type { BackoffOptions } from '../util/backoff.ts';
import type { WallClock } from '../util/clock.ts';
import type { TlsObserver } from '../util/tls-observer.ts';
import { system } from './system.ts';

export interface KeySourceOptions extends BackoffOptions, WallClock {
  readonly events: KeySourceObserver;
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

/** Reads one ring for a command. @throws ProxyError `key-source-unavailable` */
export async function readKeyRingOnce(
  keys: KeysConfig,
  login: LoginRef,
  report: (problem: string) => void,
): Promise<KeyRing | undefined> {
  const source = createKeySource(keys, {
    ...system,
    events: { ...silentObserver, loginFailed: report, keyProblem: report },
  });
  source.start();
  try {
    return ringIn(await source.read(login));
  } finally {
    await source.stop();
  }
}

const ignore = (): void => {};

/** For commands, which have no metrics. */
export const silentObserver: KeySourceObserver = {
  keyLookup: ignore,
  keyFetched: ignore,
  keyRingUpdated: ignore,
  loginsNotFound: ignore,
  keySourceUp: ignore,
  loginsDenied: ignore,
  cachedKeysExpire: ignore,
  tokenExpiryChanged: ignore,
  loginFailed: ignore,
  keyProblem: ignore,
};
