import type { KeysConfig } from '../config/shape.ts';
import { DirectorySource } from '../keys/directory.ts';
import type { KeyAddress, KeyEvents, KeyRing, KeySource } from '../keys/source.ts';
import { vaultSource } from '../keys/vault/source.ts';
import type { TlsMaterial } from '../tls/material.ts';

export interface KeySourcePorts {
  readonly events: KeyEvents;
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
export function openSource(keys: KeysConfig, ports: KeySourcePorts): KeySource {
  return keys.source === 'vault'
    ? vaultSource(keys.vault, keys.overlap, ports)
    : new DirectorySource({ directory: keys.directory, overlap: keys.overlap, now: ports.clock });
}

/** Reads one ring for a command that ends afterwards. @throws Refusal `key-source-unavailable` */
export async function readOnce(
  keys: KeysConfig,
  address: KeyAddress,
  tell: (problem: string) => void,
): Promise<KeyRing | undefined> {
  const source = openSource(keys, {
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
function onlyProblems(tell: (problem: string) => void): KeyEvents {
  const ignore = (): void => {};
  return {
    keyTaken: ignore,
    keyFetched: ignore,
    ringChanged: ignore,
    keySourceUp: ignore,
    sourceTokenExpires: ignore,
    loginFailed: tell,
    keyProblem: tell,
  };
}
