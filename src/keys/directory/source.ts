import { accessSync, constants } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../../errors.ts';
import { type FileSet, ignoreNotFound, readConsistent } from '../../read-files.ts';
import type { SetTimer } from '../../util/clock.ts';
import { endsWithin } from '../../util/promises.ts';
import { NoRoom, Slots } from '../../util/slots.ts';
import { SourceUnavailable } from '../errors.ts';
import { type KeyPlaces, parseKeys } from '../key.ts';
import type { KeySource, NoKeys } from '../key-source.ts';
import { assertLoginRef, type LoginRef } from '../login-ref.ts';
import { includesKey, type KeyRing, maxKeys, sameContent, type UsableKey } from '../ring.ts';

const fileNames = ['control_key', 'private_key.pem', 'passphrase'] as const;
const places: KeyPlaces = {
  control_key: 'file control_key',
  private_key: 'file private_key.pem',
  passphrase: 'file passphrase',
};
/** Files have no history, so the ring keeps it. */
const maximumSuperseded = maxKeys - 1;
/** Milliseconds that a read may take: a network file system may hang. */
const timeout = 5_000;
/** One read at a time: one that hangs occupies threads that also serve DNS lookups and signatures, and cannot be ended. */
const slots = { size: 1, queue: 1_000 };

interface DirectorySettings {
  readonly directory: string;
  /** Milliseconds during which a replaced key is still returned, as superseded. */
  readonly rotationGracePeriod: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** The process's timers unless given. */
  readonly setTimer?: SetTimer | undefined;
}

/**
 * Keys mounted as files: `{directory}/{environment}/{login}/control_key`, `private_key.pem` and, for an
 * encrypted private key, `passphrase`.
 *
 * Every read reads the files. A known key that was replaced since is kept as superseded, so that a rotation has a
 * previous key here too.
 */
export function createDirectorySource(settings: DirectorySettings): KeySource {
  const { directory, rotationGracePeriod, now } = settings;
  const running = new Slots(slots);
  let wasReadable = false;

  async function filesOf(login: LoginRef): Promise<FileSet | NoKeys> {
    assertLoginRef(login);
    try {
      const read = running.run(() => readFiles(directory, login));
      if (!(await endsWithin(timeout, read, settings.setTimer))) throw hangs(directory, login);
      wasReadable = true;
      return await read;
    } catch (error) {
      if (error instanceof SourceUnavailable) throw error;
      throw error instanceof NoRoom ? hangs(directory, login) : failureOf(directory, login, error);
    }
  }

  return {
    async read(login, known = [], accepted = []) {
      const files = await filesOf(login);
      if (typeof files === 'string') return files;
      const { ring, replaced } = mergeRing(known, files, now(), rotationGracePeriod);
      return { ring, gone: replaced.filter((key) => includesKey(accepted, key) && !ring.includes(key)) };
    },
    async check() {
      const fault = describeFailure(directory);
      if (fault !== undefined) throw new Error(unreadable(directory, fault));
    },
    // The directory was readable at least once. It is checked now, since there may have been no read yet.
    ready() {
      wasReadable ||= describeFailure(directory) === undefined;
      return wasReadable;
    },
    // No background work: files are read on request.
    start() {},
    stop() {},
  };
}

function hangs(directory: string, login: LoginRef): SourceUnavailable {
  const text = `the directory ${directory} did not respond within ${timeout / 1_000} s`;
  return new SourceUnavailable(login, new Error(text), 'down');
}

/** An unreadable file affects one login; a directory that is not mounted affects all of them. */
function failureOf(directory: string, login: LoginRef, error: unknown): SourceUnavailable {
  const fault = describeFailure(directory);
  if (fault === undefined)
    return new SourceUnavailable(login, error, errorCode(error) === 'EACCES' ? 'denied' : 'up');
  return new SourceUnavailable(login, new Error(unreadable(directory, fault)), 'down');
}

function unreadable(directory: string, fault: string): string {
  return `cannot read the directory ${directory} (${fault})`;
}

async function readFiles(directory: string, { environment, login }: LoginRef): Promise<FileSet | NoKeys> {
  const folder = join(directory, environment, login);
  if ((await ignoreNotFound(stat(folder))) === undefined) {
    // A volume that is not mounted, or another one, must not look like deleted logins.
    await stat(directory);
    const parent = await ignoreNotFound(stat(join(directory, environment)));
    return parent === undefined ? 'not-found' : 'deleted';
  }
  const snapshot = await readConsistent(fileNames.map((file) => join(folder, file)));
  const [controlKey, privateKey] = snapshot.contents;
  return controlKey === undefined && privateKey === undefined ? 'deleted' : snapshot;
}

/**
 * The ring after a read: the known current entries if nothing changed, otherwise the new ones; then those that usable
 * ones replaced.
 */
function mergeRing(known: KeyRing, files: FileSet, now: number, rotationGracePeriod: number) {
  const newest = Math.max(-1, ...known.map((entry) => entry.version));
  const previous = known.filter((entry) => entry.version === newest);
  const read = parseFiles(files, newest + 1);
  const unchanged =
    read.length === previous.length && read.every((key) => previous.some((other) => sameContent(key, other)));
  const current = unchanged ? previous : read;
  const replaced = known.flatMap((entry) => {
    const successor = current.find((key) => key.kind === entry.kind);
    if (!('key' in entry) || successor === undefined || sameContent(successor, entry)) return [];
    return 'key' in successor ? { ...entry, supersededAt: entry.supersededAt ?? new Date(now) } : entry;
  });
  const isInGrace = ({ supersededAt }: UsableKey): boolean =>
    supersededAt === undefined || now - supersededAt.getTime() < rotationGracePeriod;
  const superseded = replaced.filter(isInGrace).slice(0, maximumSuperseded);
  return { ring: [...current, ...superseded], replaced };
}

/** @param minimumVersion makes versions grow even if files have old times or change twice within a second */
function parseFiles({ contents, changedAt }: FileSet, minimumVersion: number): KeyRing {
  const [controlKey, privateKey, passphrase] = contents;
  const seconds = Math.floor(changedAt.getTime() / 1000);
  return parseKeys(
    { control_key: controlKey, private_key: privateKey, passphrase },
    { version: Math.max(seconds, minimumVersion), createdAt: changedAt },
    undefined,
    places,
  );
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

/**
 * Names of the subdirectories of a key directory: environments, or logins below one. Skips hidden directories:
 * Kubernetes keeps the data of a mounted secret in some.
 */
export async function listSubdirectories(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  return entries.filter((entry) => !entry.isFile() && !entry.name.startsWith('.')).map(({ name }) => name);
}
