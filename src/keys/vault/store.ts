import type { VaultConfig } from '../../config/shape.ts';
import { parseKeys } from '../key.ts';
import type { KeyAddress, KeyRing } from '../source.ts';
import { plainFields } from './hidden.ts';
import type { Fields, History } from './kv.ts';
import { openVault, type VaultPorts } from './vault.ts';

/** One version of a login's secret. */
export interface StoredVersion {
  readonly version: number;
  readonly createdAt: Date;
  /** All fields, each text in a Secret: what a rollback writes again. */
  readonly fields: Fields;
  readonly keys: KeyRing;
}

/** What the platform team does with logins and their keys. Every method throws only VaultError. */
export interface VaultStore {
  /** All versions, without their content; `undefined` where the login has never had a secret. */
  versions(address: KeyAddress): Promise<History | undefined>;
  /** `undefined` where the version does not exist, or is deleted or destroyed. */
  readVersion(address: KeyAddress, version: number): Promise<StoredVersion | undefined>;
  /**
   * Writes a new version that has these fields and, of the version before, all the others; gives its number.
   * A field that is `undefined` is taken out.
   *
   * @param cas number of the version before, 0 for a login's first.
   * @throws VaultError `cas-mismatch` if somebody else has written since.
   */
  write(address: KeyAddress, fields: Fields, cas: number): Promise<number>;
  /** As {@link write}, but the new version has exactly these fields. */
  replace(address: KeyAddress, fields: Fields, cas: number): Promise<number>;
  /** Logins of an environment that have or had a secret. */
  list(environment: string): Promise<readonly string[]>;
  /** Takes a bounded time and never rejects. */
  close(): Promise<void>;
}

/** @throws as {@link openVault}. */
export function vaultStore(config: VaultConfig, ports: VaultPorts): VaultStore {
  const vault = openVault(config, ports);
  return {
    versions: (address) => vault.use((kv, token) => kv.history(token, address)),
    readVersion: (address, version) =>
      vault.use(async (kv, token) => {
        const found = await kv.read(token, address, version);
        if (found?.fields === undefined) return undefined;
        const { createdAt, fields } = found;
        return {
          version,
          createdAt,
          fields,
          keys: parseKeys(plainFields(fields), { version, createdAt }),
        };
      }),
    write: (address, fields, cas) =>
      vault.use(async (kv, token) => {
        const before = cas === 0 ? undefined : await kv.read(token, address, cas);
        return kv.write(token, address, { ...before?.fields, ...fields }, cas);
      }),
    replace: (address, fields, cas) => vault.use((kv, token) => kv.write(token, address, fields, cas)),
    list: (environment) => vault.use((kv, token) => kv.logins(token, environment)),
    close: () => vault.close(),
  };
}
