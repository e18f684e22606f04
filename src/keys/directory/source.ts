import { isUtf8 } from 'node:buffer';
import { accessSync, constants } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type FileSet, ignoreNotFound, readConsistent } from '../../util/consistent-read.ts';
import { SourceUnavailable } from '../errors.ts';
import { parseKeys, sameContent } from '../key.ts';
import type { KeyRing, KeySource, LoginRef } from '../key-source.ts';
import { assertLoginRef, loginRefString } from '../login-ref.ts';

const fileNames = ['control_key', 'private_key.pem', 'passphrase'] as const;
/** Files have no history but what is remembered here: enough for a rotation that took several attempts. */
const maximumSuperseded = 4;

export interface DirectorySettings {
  readonly directory: string;
  /** Milliseconds for which a key that was replaced is still given, as superseded. */
  readonly rotationGracePeriod: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * Keys mounted as files: `{directory}/{environment}/{login}/control_key`, `private_key.pem` and, for an
 * encrypted private key, `passphrase`.
 *
 * Files are read at every read. A key that was replaced since the last one is remembered, in memory only, so
 * that a rotation has a previous key here too.
 */
export class DirectorySource implements KeySource {
  readonly #settings: DirectorySettings;
  readonly #rings = new Map<string, KeyRing>();
  #answered = false;

  constructor(settings: DirectorySettings) {
    this.#settings = settings;
  }

  async read(address: LoginRef): Promise<KeyRing | undefined> {
    assertLoginRef(address);
    const name = loginRefString(address);
    const files = await this.#files(address).catch((error: unknown) => {
      throw this.#failure(address, error);
    });
    this.#answered = true;
    if (files === undefined) {
      this.#rings.delete(name);
      return undefined;
    }
    const { now, rotationGracePeriod } = this.#settings;
    const ring = mergeRing(this.#rings.get(name) ?? [], files, now(), rotationGracePeriod);
    this.#rings.set(name, ring);
    return ring;
  }

  start(): void {
    // Nothing runs in the background: files are looked at when they are asked for.
  }

  /** Whether the directory could be opened once; asked on the spot, since no read may have come yet. */
  ready(): boolean {
    if (!this.#answered) this.#answered = describeFailure(this.#settings.directory) === undefined;
    return this.#answered;
  }

  stop(): void {
    // See start.
  }

  /** A file that may not be read concerns one login; a folder that is not mounted, all of them. */
  #failure(address: LoginRef, error: unknown): SourceUnavailable {
    const { directory } = this.#settings;
    const fault = describeFailure(directory);
    if (fault === undefined) return new SourceUnavailable(address, error, 'up');
    return new SourceUnavailable(
      address,
      new Error(`cannot read the folder ${directory} (${fault})`),
      'down',
    );
  }

  /** `undefined`: the login has no folder, or no key in it. */
  async #files({ environment, login }: LoginRef): Promise<FileSet | undefined> {
    const { directory } = this.#settings;
    const folder = join(directory, environment, login);
    if ((await ignoreNotFound(stat(folder))) === undefined) {
      // A volume that is not mounted must not look like logins that were deleted.
      await stat(directory);
      return undefined;
    }
    const snapshot = await readConsistent(fileNames.map((file) => join(folder, file)));
    const [controlKey, privateKey] = snapshot.contents;
    return controlKey === undefined && privateKey === undefined ? undefined : snapshot;
  }
}

/**
 * The ring after a read: the known entries when nothing changed, otherwise new ones, and after them what they
 * replaced. Contents decide, not times: a file that was only touched is no new version.
 */
function mergeRing(known: KeyRing, files: FileSet, now: number, rotationGracePeriod: number): KeyRing {
  const inForce = known.filter((entry) => entry.supersededAt === undefined);
  const read = parseFiles(files, 1 + Math.max(-1, ...known.map((entry) => entry.version)));
  const unchanged =
    read.length === inForce.length && read.every((key) => inForce.some((other) => sameContent(key, other)));
  const current = unchanged ? inForce : read;
  const superseded = known
    .filter((entry) => 'key' in entry)
    .map((entry) => ({ ...entry, supersededAt: entry.supersededAt ?? new Date(now) }))
    .filter((entry) => {
      const successor = current.find((key) => key.kind === entry.kind);
      const outlived = now - entry.supersededAt.getTime() >= rotationGracePeriod;
      return successor !== undefined && !sameContent(successor, entry) && !outlived;
    });
  return [...current, ...superseded.slice(0, maximumSuperseded)];
}

/** @param minimumVersion keeps versions apart when files come with old times, or twice within a second. */
function parseFiles({ contents, changedAt }: FileSet, minimumVersion: number): KeyRing {
  const [controlKey, privateKey, passphrase] = contents.map(text);
  const seconds = Math.floor(changedAt.getTime() / 1000);
  return parseKeys(
    { control_key: controlKey, private_key: privateKey, passphrase },
    { version: Math.max(seconds, minimumVersion), createdAt: changedAt },
  );
}

/** Bytes that are no UTF-8 stay bytes, which no key is: guessing a text would sign wrongly. */
function text(content: Buffer | undefined): unknown {
  return content !== undefined && isUtf8(content) ? content.toString('utf8') : content;
}

/** Code of the error that keeps a folder from being opened, such as `ENOENT`. */
function describeFailure(directory: string): string | undefined {
  try {
    accessSync(directory, constants.R_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'unknown';
  }
}
