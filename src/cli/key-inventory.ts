import { join } from 'node:path';
import type { KeysConfig } from '../config/shape.ts';
import { DirectorySource } from '../keys/directory.ts';
import { foldersIn } from '../keys/folders.ts';
import type { KeyAddress, KeyRing } from '../keys/source.ts';
import type { VersionInfo } from '../keys/vault/kv.ts';
import { type VaultStore, vaultStore } from '../keys/vault/store.ts';

/** One version of a login's keys. */
export interface HeldVersion {
  readonly version: number;
  readonly createdAt?: Date;
  readonly state: 'current' | 'superseded' | 'deleted' | 'destroyed';
  /** Empty for a version that is gone. */
  readonly keys: KeyRing;
}

/** What is kept for logins, as a person wants to look at it. */
export interface KeyInventory {
  /** Logins of an environment that have or had keys. */
  logins(environment: string): Promise<readonly string[]>;
  /** Newest first; none for a login that is not known. */
  versions(address: KeyAddress): Promise<readonly HeldVersion[]>;
  close(): void | Promise<void>;
}

export function openInventory(keys: KeysConfig): KeyInventory {
  return keys.source === 'vault'
    ? vaultInventory(openStore(keys.vault))
    : directoryInventory(keys.directory, keys.overlap);
}

/** Errors are thrown at whoever asked; there is nothing else to tell. */
export function openStore(vault: Extract<KeysConfig, { source: 'vault' }>['vault']): VaultStore {
  const events = {
    keyProblem: () => {},
    keySourceUp: () => {},
    loginFailed: () => {},
    sourceTokenExpires: () => {},
  };
  return vaultStore(vault, {
    clock: () => Date.now(),
    monotonic: () => performance.now(),
    random: () => Math.random(),
    events,
  });
}

export function vaultInventory(store: VaultStore): KeyInventory {
  async function held(address: KeyAddress, info: VersionInfo, current: number): Promise<HeldVersion> {
    const { version, createdAt } = info;
    const stored = info.destroyed ? undefined : await store.readVersion(address, version);
    if (stored === undefined) {
      return { version, createdAt, state: info.destroyed ? 'destroyed' : 'deleted', keys: [] };
    }
    return { version, createdAt, state: version === current ? 'current' : 'superseded', keys: stored.keys };
  }

  return {
    logins: (environment) => store.list(environment),
    async versions(address) {
      const history = await store.versions(address);
      if (history === undefined) return [];
      return Promise.all(history.versions.map((info) => held(address, info, history.current)));
    },
    close: () => store.close(),
  };
}

/** Files have no history: there is the current version alone. */
function directoryInventory(directory: string, overlap: number): KeyInventory {
  const source = new DirectorySource({ directory, overlap, now: () => Date.now() });
  return {
    logins: (environment) => foldersIn(join(directory, environment)),
    async versions(address) {
      const keys = (await source.read(address)) ?? [];
      const [first] = keys;
      return first === undefined ? [] : [{ ...ofVersion(first), state: 'current', keys }];
    },
    close: () => source.stop(),
  };
}

function ofVersion({ version, createdAt }: KeyRing[number]): Pick<HeldVersion, 'version' | 'createdAt'> {
  return createdAt === undefined ? { version } : { version, createdAt };
}
