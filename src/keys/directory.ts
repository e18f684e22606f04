import { isUtf8 } from 'node:buffer';
import { accessSync, constants } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { addressName, checkAddress } from './address.ts';
import { parseKeys, sameContent } from './key.ts';
import { SourceUnavailable } from './refusals.ts';
import { ifThere, readTogether, type Snapshot } from './snapshot.ts';
import type { KeyAddress, KeyRing, KeySource } from './source.ts';

const fileNames = ['control_key', 'private_key.pem', 'passphrase'] as const;
/** Files have no history but what is remembered here: enough for a rotation that took several attempts. */
const maximumSuperseded = 4;

export interface DirectorySettings {
  readonly directory: string;
  /** Milliseconds for which a key that was replaced is still given, as superseded. */
  readonly overlap: number;
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

  async read(address: KeyAddress): Promise<KeyRing | undefined> {
    checkAddress(address);
    const name = addressName(address);
    const files = await this.#files(address).catch((error: unknown) => {
      throw this.#failure(address, error);
    });
    this.#answered = true;
    if (files === undefined) {
      this.#rings.delete(name);
      return undefined;
    }
    const { now, overlap } = this.#settings;
    const ring = succeed(this.#rings.get(name) ?? [], files, now(), overlap);
    this.#rings.set(name, ring);
    return ring;
  }

  start(): void {
    // Nothing runs in the background: files are looked at when they are asked for.
  }

  /** Whether the directory could be opened once; asked on the spot, since no read may have come yet. */
  ready(): boolean {
    if (!this.#answered) this.#answered = faultOf(this.#settings.directory) === undefined;
    return this.#answered;
  }

  stop(): void {
    // See start.
  }

  /** A file that may not be read concerns one login; a folder that is not mounted, all of them. */
  #failure(address: KeyAddress, error: unknown): SourceUnavailable {
    const { directory } = this.#settings;
    const fault = faultOf(directory);
    if (fault === undefined) return new SourceUnavailable(address, error, 'up');
    return new SourceUnavailable(
      address,
      new Error(`cannot read the folder ${directory} (${fault})`),
      'down',
    );
  }

  /** `undefined`: the login has no folder, or no key in it. */
  async #files({ environment, login }: KeyAddress): Promise<Snapshot | undefined> {
    const { directory } = this.#settings;
    const folder = join(directory, environment, login);
    if ((await ifThere(stat(folder))) === undefined) {
      // A volume that is not mounted must not look like logins that were deleted.
      await stat(directory);
      return undefined;
    }
    const snapshot = await readTogether(fileNames.map((file) => join(folder, file)));
    const [controlKey, privateKey] = snapshot.contents;
    return controlKey === undefined && privateKey === undefined ? undefined : snapshot;
  }
}

/**
 * The ring after a read: the known entries when nothing changed, otherwise new ones, and after them what they
 * replaced. Contents decide, not times: a file that was only touched is no new version.
 */
function succeed(known: KeyRing, files: Snapshot, now: number, overlap: number): KeyRing {
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
      const outlived = now - entry.supersededAt.getTime() >= overlap;
      return successor !== undefined && !sameContent(successor, entry) && !outlived;
    });
  return [...current, ...superseded.slice(0, maximumSuperseded)];
}

/** @param minimumVersion keeps versions apart when files come with old times, or twice within a second. */
function parseFiles({ contents, changedAt }: Snapshot, minimumVersion: number): KeyRing {
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
function faultOf(directory: string): string | undefined {
  try {
    accessSync(directory, constants.R_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'unknown';
  }
}
