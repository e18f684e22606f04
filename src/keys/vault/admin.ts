import type { VaultConfig } from '../../config/schema.ts';
import { parseKeys } from '../key.ts';
import type { KeyRing, LoginRef } from '../key-source.ts';
import { connectVault, type VaultPorts } from './connect.ts';
import type { Fields, History } from './kv2.ts';
import { revealFields } from './redact.ts';

/** One version of a login's secret. */
export interface StoredVersion {
  readonly version: number;
  readonly createdAt: Date;
  /** All fields, each text in a Secret: what a rollback writes again. */
  readonly fields: Fields;
  readonly keys: KeyRing;
}

/** What the platform team does with logins and their keys. Every method throws only VaultError. */
export interface VaultAdmin {
  /** All versions, without their content; `undefined` where the login has never had a secret. */
  versions(address: LoginRef): Promise<History | undefined>;
  /** `undefined` where the version does not exist, or is deleted or destroyed. */
  readVersion(address: LoginRef, version: number): Promise<StoredVersion | undefined>;
  /**
   * Writes a new version that has these fields and, of the version before, all the others; gives its number.
   * A field that is `undefined` is taken out.
   *
   * @param cas number of the version before, 0 for a login's first.
   * @throws VaultError `cas-mismatch` if somebody else has written since.
   */
  write(address: LoginRef, fields: Fields, cas: number): Promise<number>;
  /** As {@link write}, but the new version has exactly these fields. */
  replace(address: LoginRef, fields: Fields, cas: number): Promise<number>;
  /** Logins of an environment that have or had a secret. */
  list(environment: string): Promise<readonly string[]>;
  /** Takes a bounded time and never rejects. */
  close(): Promise<void>;
}

/** @throws as {@link connectVault}. */
export function createVaultAdmin(config: VaultConfig, ports: VaultPorts): VaultAdmin {
  const vault = connectVault(config, ports);
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
          keys: parseKeys(revealFields(fields), { version, createdAt }),
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
