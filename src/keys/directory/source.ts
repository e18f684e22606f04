import { isUtf8 } from 'node:buffer';
import { accessSync, constants } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type FileSet, ignoreNotFound, readConsistent } from '../../util/consistent-read.ts';
import { errorCode } from '../../util/error-code.ts';
import { SourceUnavailable } from '../errors.ts';
import { parseKeys, sameContent } from '../key.ts';
import type { KeyRing, KeySource, LoginRef } from '../key-source.ts';
import { assertLoginRef, loginRefString } from '../login-ref.ts';

const fileNames = ['control_key', 'private_key.pem', 'passphrase'] as const;
/** Files have no history, so it is kept here: enough versions for a rotation that took several attempts. */
const maximumSuperseded = 4;

export interface DirectorySettings {
  readonly directory: string;
  /** Milliseconds during which a replaced key is still returned, as superseded. */
  readonly rotationGracePeriod: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * Keys mounted as files: `{directory}/{environment}/{login}/control_key`, `private_key.pem` and, for an
 * encrypted private key, `passphrase`.
 *
 * Every read reads the files. A key that was replaced since the last read is kept in memory as superseded, so
 * that a rotation has a previous key here too.
 */
export class DirectorySource implements KeySource {
  readonly #settings: DirectorySettings;
  readonly #rings = new Map<string, KeyRing>();
  #wasReadable = false;

  constructor(settings: DirectorySettings) {
    this.#settings = settings;
  }

  async read(login: LoginRef): Promise<KeyRing | undefined> {
    assertLoginRef(login);
    const name = loginRefString(login);
    const files = await this.#files(login).catch((error: unknown) => {
      throw this.#failure(login, error);
    });
    this.#wasReadable = true;
    if (files === undefined) {
      this.#rings.delete(name);
      return undefined;
    }
    const { now, rotationGracePeriod } = this.#settings;
    const ring = mergeRing(this.#rings.get(name) ?? [], files, now(), rotationGracePeriod);
    this.#rings.set(name, ring);
    return ring;
  }

  /** Reads all files: they hold nothing but the current version. */
  async readCurrent(login: LoginRef): Promise<number | undefined> {
    return (await this.read(login))?.[0]?.version;
  }

  start(): void {
    // No background work: files are read on request.
  }

  /** Whether the directory was readable at least once. Checks it now, since there may have been no read yet. */
  ready(): boolean {
    if (!this.#wasReadable) this.#wasReadable = describeFailure(this.#settings.directory) === undefined;
    return this.#wasReadable;
  }

  stop(): void {
    // See start.
  }

  /** An unreadable file affects one login; a directory that is not mounted affects all of them. */
  #failure(login: LoginRef, error: unknown): SourceUnavailable {
    const { directory } = this.#settings;
    const fault = describeFailure(directory);
    if (fault === undefined) return new SourceUnavailable(login, error, 'up');
    return new SourceUnavailable(
      login,
      new Error(`cannot read the directory ${directory} (${fault})`),
      'down',
    );
  }

  /** `undefined`: the login has no directory, or no key in it. */
  async #files({ environment, login }: LoginRef): Promise<FileSet | undefined> {
    const { directory } = this.#settings;
    const folder = join(directory, environment, login);
    if ((await ignoreNotFound(stat(folder))) === undefined) {
      // A volume that is not mounted must not look like deleted logins.
      await stat(directory);
      return undefined;
    }
    const snapshot = await readConsistent(fileNames.map((file) => join(folder, file)));
    const [controlKey, privateKey] = snapshot.contents;
    return controlKey === undefined && privateKey === undefined ? undefined : snapshot;
  }
}

/**
 * The ring after a read: the known entries if nothing changed, otherwise the new ones followed by those that they
 * replaced. Compares contents, not times: a touched file is not a new version.
 */
function mergeRing(known: KeyRing, files: FileSet, now: number, rotationGracePeriod: number): KeyRing {
  const previous = known.filter((entry) => entry.supersededAt === undefined);
  const read = parseFiles(files, 1 + Math.max(-1, ...known.map((entry) => entry.version)));
  const unchanged =
    read.length === previous.length && read.every((key) => previous.some((other) => sameContent(key, other)));
  const current = unchanged ? previous : read;
  const superseded = known
    .filter((entry) => 'key' in entry)
    .map((entry) => ({ ...entry, supersededAt: entry.supersededAt ?? new Date(now) }))
    .filter((entry) => {
      const successor = current.find((key) => key.kind === entry.kind);
      const isExpired = now - entry.supersededAt.getTime() >= rotationGracePeriod;
      return successor !== undefined && !sameContent(successor, entry) && !isExpired;
    });
  return [...current, ...superseded.slice(0, maximumSuperseded)];
}

/** @param minimumVersion makes versions grow even if files have old times or change twice within a second */
function parseFiles({ contents, changedAt }: FileSet, minimumVersion: number): KeyRing {
  const [controlKey, privateKey, passphrase] = contents.map(text);
  const seconds = Math.floor(changedAt.getTime() / 1000);
  return parseKeys(
    { control_key: controlKey, private_key: privateKey, passphrase },
    { version: Math.max(seconds, minimumVersion), createdAt: changedAt },
  );
}

/** Content that is not UTF-8 stays a Buffer, so that parsing rejects it: decoding it leniently would sign wrongly. */
function text(content: Buffer | undefined): unknown {
  return content !== undefined && isUtf8(content) ? content.toString('utf8') : content;
}

/** Error code, such as `ENOENT`, if the directory is not readable. */
function describeFailure(directory: string): string | undefined {
  try {
    accessSync(directory, constants.R_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    return errorCode(error) ?? 'unknown';
  }
}
