import type { KeysConfig } from '../config/schema.ts';
import { DirectorySource } from '../keys/directory/source.ts';
import type { KeyRing, KeySource, KeySourceObserver, LoginRef } from '../keys/key-source.ts';
import { createVaultSource } from '../keys/vault/source.ts';
import type { TlsMaterial } from '../tls/material.ts';

export interface KeySourceOptions {
  readonly events: KeySourceObserver;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  /** 0 to 1. */
  readonly random: () => number;
  /** Certificates for Vault; read from the files of the configuration unless given. */
  readonly tls?: TlsMaterial;
}

/** The source that the configuration names, not yet started. */
export function createKeySource(keys: KeysConfig, ports: KeySourceOptions): KeySource {
  return keys.source === 'vault'
    ? createVaultSource(keys.vault, keys.rotationGracePeriod, ports)
    : new DirectorySource({
        directory: keys.directory,
        rotationGracePeriod: keys.rotationGracePeriod,
        now: ports.clock,
      });
}

/** Reads one ring for a command that ends afterwards. @throws Refusal `key-source-unavailable` */
export async function readKeyRingOnce(
  keys: KeysConfig,
  address: LoginRef,
  tell: (problem: string) => void,
): Promise<KeyRing | undefined> {
  const source = createKeySource(keys, {
    events: onlyProblems(tell),
    clock: () => Date.now(),
    monotonic: () => performance.now(),
    random: () => Math.random(),
  });
  source.start();
  try {
    return await source.read(address);
  } finally {
    await source.stop();
  }
}

/** A command has no metrics; it tells what a person should know. */
function onlyProblems(tell: (problem: string) => void): KeySourceObserver {
  const ignore = (): void => {};
  return {
    keyLookup: ignore,
    keyFetched: ignore,
    keyRingUpdated: ignore,
    keySourceUp: ignore,
    tokenExpiryChanged: ignore,
    loginFailed: tell,
    keyProblem: tell,
  };
}
