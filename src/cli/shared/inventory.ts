import { join } from 'node:path';
import type { KeysConfig } from '../../config/schema.ts';
import { listSubdirectories } from '../../keys/directory/list.ts';
import { DirectorySource } from '../../keys/directory/source.ts';
import type { KeyRing, LoginRef } from '../../keys/key-source.ts';
import { createVaultAdmin, type VaultAdmin } from '../../keys/vault/admin.ts';
import type { VersionInfo } from '../../keys/vault/kv2.ts';

/** One version of a login's keys. */
export interface KeyVersionEntry {
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
  versions(address: LoginRef): Promise<readonly KeyVersionEntry[]>;
  close(): void | Promise<void>;
}

export function openInventory(keys: KeysConfig): KeyInventory {
  return keys.source === 'vault'
    ? vaultInventory(openStore(keys.vault))
    : directoryInventory(keys.directory, keys.rotationGracePeriod);
}

/** Errors are thrown at whoever asked; there is nothing else to tell. */
export function openStore(vault: Extract<KeysConfig, { source: 'vault' }>['vault']): VaultAdmin {
  const events = {
    keyProblem: () => {},
    keySourceUp: () => {},
    loginFailed: () => {},
    tokenExpiryChanged: () => {},
  };
  return createVaultAdmin(vault, {
    clock: () => Date.now(),
    monotonic: () => performance.now(),
    random: () => Math.random(),
    events,
  });
}

export function vaultInventory(store: VaultAdmin): KeyInventory {
  async function held(address: LoginRef, info: VersionInfo, current: number): Promise<KeyVersionEntry> {
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
function directoryInventory(directory: string, rotationGracePeriod: number): KeyInventory {
  const source = new DirectorySource({
    directory,
    rotationGracePeriod,
    now: () => Date.now(),
  });
  return {
    logins: (environment) => listSubdirectories(join(directory, environment)),
    async versions(address) {
      const keys = (await source.read(address)) ?? [];
      const [first] = keys;
      return first === undefined ? [] : [{ ...ofVersion(first), state: 'current', keys }];
    },
    close: () => source.stop(),
  };
}

function ofVersion({ version, createdAt }: KeyRing[number]): Pick<KeyVersionEntry, 'version' | 'createdAt'> {
  return createdAt === undefined ? { version } : { version, createdAt };
}
