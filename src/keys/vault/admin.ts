import type { VaultConfig } from '../../config/schema.ts';
import { parseKeys } from '../key.ts';
import type { KeyRing, LoginRef, TransitKey } from '../key-source.ts';
import { type Fields, revealFields } from './client.ts';
import { connectVault, type VaultOptions } from './source.ts';

export interface StoredVersion {
  readonly version: number;
  /** All fields, each text as a Secret. A rollback writes them again. */
  readonly fields: Fields;
  readonly keys: KeyRing;
}

export type VaultAdmin = ReturnType<typeof createVaultAdmin>;

/** Key management by the platform team. Every method throws only VaultError. @throws as {@link connectVault} */
export function createVaultAdmin(config: VaultConfig, options: VaultOptions) {
  const vault = connectVault(config, options);
  return {
    /** All versions, without their content; `undefined` if the login never had a secret. */
    versions: (login: LoginRef) => vault.withToken((kv, token) => kv.history(token, login)),
    /** `undefined` if the version does not exist, or is deleted or destroyed. */
    readVersion: (login: LoginRef, version: number): Promise<StoredVersion | undefined> =>
      vault.withKeys(async (kv, token, transitKeyIn) => {
        const found = await kv.read(token, login, version);
        if (found?.fields === undefined) return undefined;
        const { createdAt, fields } = found;
        const transit = await transitKeyIn(login, fields);
        return { version, fields, keys: parseKeys(revealFields(fields), { version, createdAt }, transit) };
      }),
    /** Makes a new key, or a new version of it, in the Transit engine; see {@link TransitEngine.generate}. */
    generateInTransit: ({ environment }: LoginRef, name: string, bits: number) =>
      vault.withToken((_kv, token) => vault.transit.generate(token, environment, name, bits)),
    /** The key that a reference names. */
    findInTransit: (login: LoginRef, reference: string) =>
      vault.withKeys((_kv, _token, transitKeyIn) => transitKeyIn(login, { transit_key: reference })),
    /** As {@link TransitEngine.objections}. */
    objections: (key: TransitKey) => vault.withToken((_kv, token) => vault.transit.objections(token, key)),
    /** As {@link TransitEngine.sign}. */
    sign: (key: TransitKey, baseString: string) =>
      vault.withToken((_kv, token) => vault.transit.sign(token, key, baseString)),
    /**
     * Writes a new version: the previous one with these fields changed. A field that is `undefined` is removed.
     *
     * @param cas number of the previous version; 0 for a login's first
     * @returns the number of the new version
     * @throws VaultError `cas-mismatch` if the secret was changed concurrently
     */
    write: (login: LoginRef, fields: Fields, cas: number) =>
      vault.withToken(async (kv, token) => {
        const previous = cas === 0 ? undefined : await kv.read(token, login, cas);
        return kv.write(token, login, { ...previous?.fields, ...fields }, cas);
      }),
    /** As `write`, but the new version has exactly these fields. */
    replace: (login: LoginRef, fields: Fields, cas: number) =>
      vault.withToken((kv, token) => kv.write(token, login, fields, cas)),
    /** Logins of an environment that have a secret, or had one. */
    list: (environment: string) => vault.withToken((kv, token) => kv.logins(token, environment)),
    /** The path of the login's secret if the token may not read it; `undefined` if it may. */
    deniedPath: (login: LoginRef) => vault.withToken((kv, token) => kv.deniedPath(token, login)),
    /** Takes a bounded time and never rejects. */
    close: () => vault.close(),
  };
}
