import { z } from 'zod';
import type { LoginRef } from '../login-ref.ts';
import { type AuthenticatedClient, type Fields, hideFields, permissionsOf } from './client.ts';
import { isOfPathOnly, VaultError } from './errors.ts';
import type { kvPaths } from './paths.ts';

/** One version of a secret. Without `fields` it is deleted or destroyed. */
export interface StoredVersion {
  readonly version: number;
  readonly createdAt: Date;
  readonly fields?: Fields;
}

const version = z.int().positive();
/** RFC 3339 with nanoseconds, which are truncated to milliseconds. */
const time = z
  .string()
  .transform((text) => new Date(text))
  .refine((date) => !Number.isNaN(date.getTime()));
const metadataShape = z
  .object({ version, created_time: time })
  .transform(({ version, created_time: createdAt }): StoredVersion => ({ version, createdAt }));
const secretShape = z
  .object({
    data: z.object({
      data: z.record(z.string(), z.unknown()).transform(hideFields),
      metadata: metadataShape,
    }),
  })
  .transform(({ data: { data: fields, metadata } }): StoredVersion => ({ ...metadata, fields }));
const historyShape = z
  .object({
    data: z.object({
      current_version: z.int().min(0),
      max_versions: z.int().min(0),
      versions: z.record(
        z.string().regex(/^[1-9]\d*$/),
        z.object({ created_time: time, deletion_time: z.string(), destroyed: z.boolean() }),
      ),
    }),
  })
  .transform(({ data }) => {
    const versions = Object.entries(data.versions).map(([number, info]) => ({
      version: Number(number),
      createdAt: info.created_time,
      /** When it was deleted; in the future if it will be deleted automatically. */
      deletedAt: info.deletion_time === '' ? undefined : new Date(info.deletion_time),
      destroyed: info.destroyed,
    }));
    return {
      /** Number of the newest version, deleted or not. Check-and-set compares with it. */
      current: data.current_version,
      /** How many versions Vault keeps; 0: as configured for the mount. */
      maxVersions: data.max_versions,
      /** Newest first. */
      versions: versions.toSorted((a, b) => b.version - a.version),
    };
  });
const keysShape = z.object({ data: z.object({ keys: z.array(z.string()) }) });
const writtenShape = z.object({ data: z.object({ version }) });
const mountShape = z
  .object({
    data: z.object({
      type: z.string(),
      path: z.string().default(''),
      options: z.object({ version: z.string().optional() }).nullish(),
    }),
  })
  .transform(({ data }) => ({
    isVersion1: data.type === 'kv' && data.options?.version !== '2',
    name: data.path.replace(/\/$/, ''),
  }));

export type History = z.output<typeof historyShape>;
export type VersionInfo = History['versions'][number];

/**
 * Secrets of a KV version 2 mount (Vault's API documentation, "KV secrets engine - version 2 (API)").
 *
 * The version in a response is checked. Nothing else in it shows that it belongs to the request (it names neither
 * path nor login, and Vault generates its `request_id`), so the transport must not mix up responses.
 */
export class KvStore {
  readonly #client: AuthenticatedClient;
  readonly #paths: ReturnType<typeof kvPaths>;
  #isVersion2 = false;

  constructor(client: AuthenticatedClient, paths: ReturnType<typeof kvPaths>) {
    this.#client = client;
    this.#paths = paths;
  }

  /** One version; without `number` the current one. `undefined` if there never was one. */
  async read(login: LoginRef, number?: number): Promise<StoredVersion | undefined> {
    const query = number === undefined ? '' : `?version=${number}`;
    const path = this.#paths.secret('data', login) + query;
    const found = await this.#client.read(path, secretShape).catch(this.#explained).catch(ifDeleted);
    if (found === undefined) return this.#checkMount();
    if (number !== undefined) checkVersion(found.version, number);
    return found;
  }

  async history(login: LoginRef): Promise<History | undefined> {
    const path = this.#paths.secret('metadata', login);
    const found = await this.#client.read(path, historyShape).catch(this.#explained).catch(ifNotFound);
    return found ?? this.#checkMount();
  }

  /**
   * Writes a new version.
   *
   * @param cas the expected current version; 0: there must be none
   * @returns its number
   * @throws VaultError `cas-mismatch`; `invalid-response` if the response is about another version
   */
  async write(login: LoginRef, fields: Fields, cas: number): Promise<number> {
    const path = this.#paths.secret('data', login);
    const written = await this.#client.write(path, { options: { cas }, data: fields }, writtenShape);
    // With check-and-set, the new version follows the expected one.
    checkVersion(written.data.version, cas + 1);
    return written.data.version;
  }

  /** As {@link write}: the previous version with these fields changed. One that is `undefined` is removed. */
  async extend(login: LoginRef, fields: Fields, cas: number): Promise<number> {
    const previous = cas === 0 ? undefined : await this.read(login, cas);
    return this.write(login, { ...previous?.fields, ...fields }, cas);
  }

  /** The path of the login's secret if the token may not read it; `undefined` if it may. */
  async deniedPath(login: LoginRef): Promise<string | undefined> {
    const path = this.#paths.secret('data', login);
    const may = await permissionsOf(this.#client, [path]);
    if (may(path, 'read')) return undefined;
    await this.#checkMount();
    return decodeURIComponent(path);
  }

  /**
   * Logins of an environment that have a secret, deleted or not. Logins of all environments if the path has the login
   * before the environment.
   */
  async logins(environment: string): Promise<readonly string[]> {
    const response = await this.#client.list(this.#paths.folder(environment), keysShape).catch(ifNotFound);
    return (response?.data.keys ?? [])
      .map((name) => this.#paths.loginOf(environment, name))
      .filter((login) => login !== undefined);
  }

  /** A denied path may be one of a mount that does not exist: a policy rarely permits those. */
  readonly #explained = async (error: unknown): Promise<never> => {
    if (isOfPathOnly(error) && error.kind === 'denied') await this.#checkMount();
    throw error;
  };

  /**
   * Detects what is not the name of a mount but a path below one, such as `secret/data`; and a mount with KV version 1,
   * which responds with 404 to every path of version 2: without this check all logins would seem to have no keys. Checked
   * until it is passed, with the path that the Vault CLI uses too (`sys/internal/ui/mounts/:path`). Vault permits it to every
   * token that has any access to the mount. If Vault does not report it, the secret counts as not found.
   *
   * @throws VaultError `kv-version-1`, `not-a-mount`
   */
  async #checkMount(): Promise<undefined> {
    if (this.#isVersion2) return;
    const path = `sys/internal/ui/mounts/${this.#paths.mount}`;
    const info = await this.#client.readIfPermitted(path, mountShape).catch((error: unknown) => {
      if (!isOfPathOnly(error)) throw error;
      return undefined;
    });
    const mount = decodeURIComponent(this.#paths.mount);
    if (info !== undefined && info.name !== '' && mount.startsWith(`${info.name}/`))
      throw new VaultError('not-a-mount', { note: `it is "${mount}", and Vault's mount is "${info.name}"` });
    if (info?.isVersion1 === true) throw new VaultError('kv-version-1');
    this.#isVersion2 = true;
  }
}

function checkVersion(version: number, expected: number): void {
  if (version === expected) return;
  throw new VaultError('invalid-response', { note: `expected version ${expected}, got version ${version}` });
}

/** Vault responds with 404 for a deleted or destroyed version too, but then with its metadata. */
function ifDeleted(error: unknown): StoredVersion | undefined {
  if (!isOfPathOnly(error) || error.kind !== 'deleted') return ifNotFound(error);
  const metadata = metadataShape.safeParse(error.metadata);
  if (metadata.success) return metadata.data;
  throw new VaultError('unexpected-content', { note: 'deleted version lacks metadata' });
}

function ifNotFound(error: unknown): undefined {
  if (!isOfPathOnly(error) || error.kind !== 'not-found') throw error;
}
