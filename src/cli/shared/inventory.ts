import { join } from 'node:path';
import type { KeysConfig, VaultConfig } from '../../config/schema.ts';
import { isIdentifier } from '../../identifiers.ts';
import { createDirectorySource, listSubdirectories } from '../../keys/directory/source.ts';
import type { KeyRing, LoginRef, TransitKey } from '../../keys/key-source.ts';
import { ringIn } from '../../keys/ring.ts';
import { createVaultAdmin, type VaultAdmin } from '../../keys/vault/admin.ts';
import type { VersionInfo } from '../../keys/vault/kv2.ts';
import { silentObserver } from '../../server/open-key-source.ts';
import { system } from '../../server/system.ts';

export interface KeyVersionEntry {
  readonly version: number;
  readonly createdAt?: Date | undefined;
  readonly state: 'current' | 'superseded' | 'deleted' | 'destroyed';
  /** Empty for a version that was deleted or destroyed. */
  readonly keys: KeyRing;
}

/** The stored keys of logins, for the operator. */
export type KeyInventory = ReturnType<typeof vaultInventory>;

export function openInventory(keys: KeysConfig): KeyInventory {
  return keys.source === 'vault'
    ? vaultInventory(createAdmin(keys.vault))
    : directoryInventory(keys.directory, keys.rotationGracePeriod);
}

/** Errors are thrown to the command, so the events have no listener. */
export function createAdmin(vault: VaultConfig): VaultAdmin {
  return createVaultAdmin(vault, { ...system, events: silentObserver });
}

function vaultInventory(admin: VaultAdmin) {
  async function readEntry(login: LoginRef, info: VersionInfo, current: number): Promise<KeyVersionEntry> {
    const { version, createdAt } = info;
    const stored = info.destroyed ? undefined : await admin.readVersion(login, version);
    if (stored === undefined) {
      return { version, createdAt, state: info.destroyed ? 'destroyed' : 'deleted', keys: [] };
    }
    return { version, createdAt, state: version === current ? 'current' : 'superseded', keys: stored.keys };
  }

  return {
    /** Logins of an environment that have or had keys, and names among them that are none: nothing reads those. */
    logins: async (environment: string) => separate(await admin.list(environment)),
    /** Newest first; none for an unknown login. */
    async versions(login: LoginRef): Promise<KeyVersionEntry[]> {
      const history = await admin.versions(login);
      if (history === undefined) return [];
      return Promise.all(history.versions.map((info) => readEntry(login, info, history.current)));
    },
    /** Whether writing a version removes the one before it. */
    async keepsOneVersion(login: LoginRef): Promise<boolean> {
      const history = await admin.versions(login);
      // The limit may also be that of the mount.
      if (history === undefined) return false;
      const { maxVersions, current, versions } = history;
      return maxVersions === 1 || (current > 1 && versions.length === 1);
    },
    /** Where the keys of a login are, if they may not be read; `undefined` if they may. */
    deniedPath: (login: LoginRef) => admin.deniedPath(login),
    /** Signs a base string with a key that does not leave Vault. */
    sign: (key: TransitKey, baseString: string) => admin.sign(key, baseString),
    /** What an auditor would object to in such a key, or in the rights to it. @throws VaultError if it cannot sign */
    objections: (key: TransitKey) => admin.objections(key),
    close: (): void | Promise<void> => admin.close(),
  };
}

/** Files have no history, only the current version. */
function directoryInventory(directory: string, rotationGracePeriod: number): KeyInventory {
  const source = createDirectorySource({ directory, rotationGracePeriod, now: system.clock });
  return {
    logins: async (environment) => separate(await listSubdirectories(join(directory, environment))),
    async versions(login) {
      const keys = ringIn(await source.read(login)) ?? [];
      return keys
        .slice(0, 1)
        .map(({ version, createdAt }) => ({ version, createdAt, state: 'current', keys }));
    },
    keepsOneVersion: async () => false,
    // Reading them shows it.
    deniedPath: async () => undefined,
    sign: async () => {
      throw new TypeError('a key in a file signs here');
    },
    objections: async () => [],
    close: () => source.stop(),
  };
}

function separate(names: readonly string[]) {
  return { logins: names.filter(isIdentifier), others: names.filter((name) => !isIdentifier(name)) };
}
