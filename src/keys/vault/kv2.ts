import { z } from 'zod';
import type { Secret } from '../../secret.ts';
import type { LoginRef } from '../key-source.ts';
import type { VaultClient } from './client.ts';
import { isVaultError, VaultError } from './errors.ts';
import { MountVersion } from './mount-version.ts';
import type { KvPaths } from './paths.ts';
import { hideSecrets } from './redact.ts';

/** The fields of a secret, each text in a Secret. */
export type Fields = Readonly<Record<string, unknown>>;

/** One version as it was read; without `fields` it is deleted or destroyed. */
export interface Version {
  readonly version: number;
  readonly createdAt: Date;
  readonly fields?: Fields;
}

/** What the metadata says of one version. */
export interface VersionInfo {
  readonly version: number;
  readonly createdAt: Date;
  /** Set once it is deleted, or to the future where versions end by themselves. */
  readonly deletedAt?: Date;
  readonly destroyed: boolean;
}

export interface History {
  /** Number of the newest version, deleted or not: what check-and-set compares with. */
  readonly current: number;
  /** Newest first. */
  readonly versions: readonly VersionInfo[];
}

const version = z.int().positive();
/** RFC 3339, as Vault writes it; with nanoseconds, of which milliseconds remain. */
const time = z
  .string()
  .transform((text) => new Date(text))
  .refine((date) => !Number.isNaN(date.getTime()));
const metadataShape = z.object({ version, created_time: time });
const secretShape = z.object({
  data: z.object({
    data: z.record(z.string(), z.unknown().transform(hideSecrets)),
    metadata: metadataShape,
  }),
});
const historyShape = z.object({
  data: z.object({
    current_version: z.int().min(0),
    versions: z.record(
      z.string().regex(/^[1-9]\d*$/),
      z.object({ created_time: time, deletion_time: z.string(), destroyed: z.boolean() }),
    ),
  }),
});
const keysShape = z.object({ data: z.object({ keys: z.array(z.string()) }) });
const writtenShape = z.object({ data: z.object({ version }) });

/**
 * Secrets of a KV version 2 mount (Vault's API documentation, "KV secrets engine - version 2 (API)").
 *
 * A response says which version it is about, and that is checked. It names neither path nor login, and its
 * `request_id` is made by Vault, so nothing else in it shows that it belongs to the request: the transport has
 * to see to that.
 */
export class KvStore {
  readonly #client: VaultClient;
  readonly #paths: KvPaths;

  readonly #mount: MountVersion;

  constructor(client: VaultClient, paths: KvPaths) {
    this.#client = client;
    this.#paths = paths;
    this.#mount = new MountVersion(client, paths.mount);
  }

  /** One version, the current one unless told otherwise; `undefined` where there has never been one. */
  async read(token: Secret, address: LoginRef, number?: number): Promise<Version | undefined> {
    const query = number === undefined ? '' : `?version=${number}`;
    const path = this.#paths.secret('data', address) + query;
    const reply = await this.#client.read(path, secretShape, token).catch(gone);
    if (reply === undefined) return this.#mount.check(token);
    const { metadata, data: fields } = reply.data;
    if (number !== undefined) checkVersion(metadata.version, number);
    const about = { version: metadata.version, createdAt: metadata.created_time };
    return fields === undefined ? about : { ...about, fields };
  }

  async history(token: Secret, address: LoginRef): Promise<History | undefined> {
    const path = this.#paths.secret('metadata', address);
    const reply = await this.#client.read(path, historyShape, token).catch(missing);
    if (reply === undefined) return this.#mount.check(token);
    const versions = Object.entries(reply.data.versions).map(([number, info]) => ({
      version: Number(number),
      createdAt: info.created_time,
      ...(info.deletion_time === '' ? {} : { deletedAt: new Date(info.deletion_time) }),
      destroyed: info.destroyed,
    }));
    versions.sort((a, b) => b.version - a.version);
    return { current: reply.data.current_version, versions };
  }

  /**
   * Writes a new version and gives its number.
   *
   * @param cas the version that must be the newest now; 0: there must be none.
   * @throws VaultError `cas-mismatch`; `invalid-reply` if the response is about another version
   */
  async write(token: Secret, address: LoginRef, fields: Fields, cas: number): Promise<number> {
    const path = this.#paths.secret('data', address);
    const written = await this.#client.write(path, { options: { cas }, data: fields }, writtenShape, token);
    // Check-and-set: the new version is the one after the version that was the newest.
    checkVersion(written.data.version, cas + 1);
    return written.data.version;
  }

  /**
   * Logins of an environment that have a secret, deleted or not. Where the path names the login before the
   * environment, they are those of all environments.
   */
  async logins(token: Secret, environment: string): Promise<readonly string[]> {
    const reply = await this.#client.list(this.#paths.folder(environment), keysShape, token).catch(missing);
    return (reply?.data.keys ?? [])
      .map((name) => this.#paths.loginOf(environment, name))
      .filter((login) => login !== undefined);
  }
}

function checkVersion(version: number, expected: number): void {
  if (version === expected) return;
  throw new VaultError('invalid-reply', { note: `version ${version} in response to version ${expected}` });
}

/** Vault answers 404 for a deleted or destroyed version too, but then with its metadata. */
function gone(error: unknown) {
  if (!isVaultError(error, 'deleted')) return missing(error);
  const metadata = metadataShape.safeParse(error.metadata);
  if (!metadata.success)
    throw new VaultError('unexpected-content', { note: 'a deleted version without a number' });
  return { data: { metadata: metadata.data, data: undefined } };
}

function missing(error: unknown): undefined {
  if (!isVaultError(error, 'not-found')) throw error;
}
