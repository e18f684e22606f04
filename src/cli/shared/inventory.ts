import { join } from 'node:path';
import type { KeysConfig } from '../../config/schema.ts';
import { identifierPattern } from '../../identifiers.ts';
import { createDirectorySource, listSubdirectories } from '../../keys/directory/source.ts';
import { shownFields } from '../../keys/field-names.ts';
import { type KeySource, ringIn, silentObserver } from '../../keys/key-source.ts';
import type { LoginRef } from '../../keys/login-ref.ts';
import type { KeyRing, TransitKey } from '../../keys/ring.ts';
import type { VersionInfo } from '../../keys/vault/kv2.ts';
import {
  connectVault,
  createVaultSource,
  type VaultConnection,
  type VaultOptions,
} from '../../keys/vault/source.ts';
import { system } from '../../service/system.ts';

export interface KeyVersionEntry {
  readonly version: number;
  readonly createdAt?: Date | undefined;
  readonly state: 'current' | 'superseded' | 'deleted' | 'destroyed';
  /** Empty for a version that was deleted or destroyed. */
  readonly keys: KeyRing;
}

/** The stored keys of logins, for the operator. */
export type KeyInventory = ReturnType<typeof vaultInventory>;

/**
 * Opens the stored keys for a command.
 *
 * @param events of the source; errors are thrown, so a command need not listen
 */
export async function withInventory<T>(
  keys: KeysConfig,
  events: Partial<typeof silentObserver>,
  work: (inventory: KeyInventory) => Promise<T>,
): Promise<T> {
  const inventory = openInventory(keys, { ...system, events: { ...silentObserver, ...events } });
  try {
    return await work(inventory);
  } finally {
    await inventory.source.stop();
  }
}

function openInventory(keys: KeysConfig, options: VaultOptions): KeyInventory {
  if (keys.source === 'directory')
    return directoryInventory(keys.directory, createDirectorySource({ ...keys, now: options.clock }));
  const vault = connectVault(keys.vault, options);
  return vaultInventory(vault, createVaultSource(vault, keys.rotationGracePeriod, options));
}

function vaultInventory(vault: VaultConnection, source: KeySource) {
  const { kv, transit } = vault;
  async function readEntry(login: LoginRef, info: VersionInfo, current: number): Promise<KeyVersionEntry> {
    const { version, createdAt, destroyed } = info;
    const stored = destroyed ? undefined : await vault.readVersion(login, version);
    if (stored?.fields === undefined)
      return { version, createdAt, state: destroyed ? 'destroyed' : 'deleted', keys: [] };
    return { version, createdAt, state: version === current ? 'current' : 'superseded', keys: stored.keys };
  }

  return {
    /** What an instance reads the same keys with. */
    source,
    /** Logins of an environment that have or had keys. */
    logins: async (environment: string) => loginsAmong(await kv.logins(environment)),
    /** Newest first; none for an unknown login. */
    async versions(login: LoginRef): Promise<KeyVersionEntry[]> {
      const history = await kv.history(login);
      if (history === undefined) return [];
      return Promise.all(history.versions.map((info) => readEntry(login, info, history.current)));
    },
    /** Whether writing a version removes the one before it. */
    async keepsOneVersion(login: LoginRef): Promise<boolean> {
      const history = await kv.history(login);
      // The limit may also be that of the mount.
      if (history === undefined) return false;
      const { maxVersions, current, versions } = history;
      return maxVersions === 1 || (current > 1 && versions.length === 1);
    },
    /** The names of the fields of a login's newest version, for a sentence about it. */
    async shownFields(login: LoginRef): Promise<string> {
      const fields = (await kv.read(login))?.fields;
      return fields === undefined ? '' : shownFields(fields);
    },
    /** Where the keys of a login are, if they may not be read; `undefined` if they may. */
    deniedPath: (login: LoginRef) => kv.deniedPath(login),
    /** Signs a base string with a key that does not leave Vault. */
    sign: (key: TransitKey, baseString: string) => transit.sign(key, baseString),
    /** What an auditor would object to in such a key, or in the rights to it. @throws VaultError if it cannot sign */
    objections: (key: TransitKey) => transit.objections(key),
  };
}

/** Files have no history, only the current version. */
function directoryInventory(directory: string, source: KeySource): KeyInventory {
  return {
    source,
    logins: async (environment) => loginsAmong(await listSubdirectories(join(directory, environment))),
    async versions(login) {
      const keys = ringIn(await source.read(login)) ?? [];
      return keys
        .slice(0, 1)
        .map(({ version, createdAt }) => ({ version, createdAt, state: 'current', keys }));
    },
    keepsOneVersion: async () => false,
    shownFields: async () => '',
    // Reading them shows it.
    deniedPath: async () => undefined,
    sign: async () => {
      throw new TypeError('a key in a file signs here');
    },
    objections: async () => [],
  };
}

/** Nothing reads what is under a name that no login can have. */
function loginsAmong(names: readonly string[]): string[] {
  return names.filter((name) => identifierPattern.test(name));
}
