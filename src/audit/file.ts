import { once } from 'node:events';
import { constants } from 'node:fs';
import {
  type FileHandle,
  mkdtemp,
  open,
  readdir,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  unlink,
} from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { basename, join } from 'node:path';
import { errorCode } from '../errors.ts';
import { ignoreNotFound } from '../read-files.ts';
import type { MonotonicClock } from '../util/clock.ts';
import type { AuditOutput, WriteResult } from './chain-writer.ts';
import { readTail, type Tail } from './tail.ts';

/**
 * `sun_path` of unix(7) has 108 bytes with its terminating zero, 104 on macOS. Within that, the path of the socket is as long
 * as that of the lock and this.
 */
const maxLockBytes = 103 - '.XXXXXX/XXXXXX'.length;

/** Each further one is needed only if another process took or released the lock meanwhile. */
const maxAttempts = 20;

/** What a refused connection says about the process of a socket. `changed`: it released the lock in this moment. */
const states: ReadonlyMap<string | undefined, 'held' | 'dead' | 'changed'> = new Map([
  // So many connections wait for a process that accepts none now that there is no room for another.
  ['EAGAIN', 'held'],
  ['ECONNREFUSED', 'dead'],
  ['ECONNRESET', 'changed'],
  ['ENOENT', 'changed'],
]);

export interface AuditFileOptions extends MonotonicClock {
  /** Wait until the disk has what was written. */
  readonly sync: boolean;
  /** The file was renamed, and no new one can be opened: records still go to the old one. Called once. */
  readonly onReopenFailed: (error: unknown) => void;
  /** The file was renamed, and failed when it was closed: its last records may be missing. */
  readonly onCloseFailed: (error: unknown) => void;
}

/** Milliseconds between checks whether the path still leads to the open file. */
const checkInterval = 1_000;
/** Readable for a group, so that a log shipper need not be the same user. */
const mode = 0o640;

/** @throws Error if another process writes to the file, or if it is not the file of an audit trail; or of node:fs */
export async function openAuditFile(
  path: string,
  options: AuditFileOptions,
): Promise<{ output: AuditFile; tail: Tail }> {
  const handle = await openRegular(path);
  let unlock: (() => Promise<void>) | undefined;
  try {
    // Whatever the name by which another process knows the file.
    unlock = await lockFile(await realpath(path));
    const tail = await readTail(handle);
    if (tail !== undefined) return { output: new AuditFile(path, options, handle, unlock), tail };
    throw new Error(`${path} has content that is not an audit trail. Move it away, or name another file.`);
  } catch (error) {
    await unlock?.();
    await handle.close();
    throw error;
  }
}

/** A file that only this process writes. A file that was renamed or removed is opened again under its path. */
export class AuditFile implements AuditOutput {
  readonly #path: string;
  readonly #options: AuditFileOptions;
  readonly #unlock: () => Promise<void>;
  #handle: FileHandle;
  #checkedAt: number;
  #reopenFailed = false;

  constructor(path: string, options: AuditFileOptions, handle: FileHandle, unlock: () => Promise<void>) {
    this.#path = path;
    this.#options = options;
    this.#handle = handle;
    this.#unlock = unlock;
    this.#checkedAt = options.monotonic();
  }

  async write(lines: Buffer): Promise<WriteResult> {
    let written = 0;
    try {
      while (written < lines.length) {
        written += (await this.#handle.write(lines, written)).bytesWritten;
      }
      if (this.#options.sync) await this.#handle.datasync();
      return { written, confirmed: written };
    } catch (error) {
      return { written, confirmed: this.#options.sync ? 0 : written, error: errorCode(error) ?? 'other' };
    }
  }

  async refresh(now = false): Promise<boolean> {
    const time = this.#options.monotonic();
    if (!now && time < this.#checkedAt + checkInterval) return false;
    this.#checkedAt = time;
    const [own, current] = await Promise.all([this.#handle.stat(), ignoreNotFound(stat(this.#path))]);
    if (current?.dev === own.dev && current.ino === own.ino) return false;
    try {
      return await this.#reopen();
    } catch (error) {
      if (own.nlink > 0) {
        if (!this.#reopenFailed) this.#options.onReopenFailed(error);
        this.#reopenFailed = true;
        return false;
      }
      this.#checkedAt = Number.NEGATIVE_INFINITY;
      throw error;
    }
  }

  async close(): Promise<void> {
    try {
      await this.#handle.close();
    } finally {
      await this.#unlock();
    }
  }

  async #reopen(): Promise<boolean> {
    const handle = await openRegular(this.#path);
    if ((await handle.stat()).size > 0) {
      await handle.close();
      throw new Error(`${this.#path} was replaced by a file that is not empty. Move it away.`);
    }
    const previous = this.#handle;
    this.#handle = handle;
    this.#reopenFailed = false;
    await previous.close().catch(this.#options.onCloseFailed);
    return true;
  }
}

async function openRegular(path: string): Promise<FileHandle> {
  // Without O_NONBLOCK, opening a pipe would wait for its reader.
  const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
  const handle = await open(path, flags, mode);
  const stats = await handle.stat();
  if (stats.isFile() && stats.nlink <= 1) return handle;
  await handle.close();
  throw new Error(
    stats.isFile()
      ? `${path} has ${stats.nlink} hard links: under another name, another process could write to it. Remove the other links; copy the file instead.`
      : `${path} is not a regular file. Name one, or use "-" for standard output.`,
  );
}

/**
 * Locks a file for this process with a Unix socket in a directory beside it, FILE.lock. The kernel ends the lock with the
 * process, and it holds between containers that share the volume on one machine, where process IDs mean nothing.
 *
 * The socket accepts connections before the directory gets its name, by rename(2), which replaces an empty directory only.
 * No two sockets have the same name, so removing one that a crash left never removes that of another process.
 *
 * @returns releases the lock
 * @throws Error if another process has it, or if it cannot be created
 */
export async function lockFile(file: string): Promise<() => Promise<void>> {
  const lock = `${file}.lock`;
  if (Buffer.byteLength(lock) > maxLockBytes) {
    throw new Error(
      `${lock} is longer than ${maxLockBytes} bytes, the limit for a lock. Choose a shorter path.`,
    );
  }
  const directory = await explained(
    mkdtemp(`${lock}.`),
    (code) => `Cannot create ${lock} (${code}). Make its directory writable, on a disk that has room.`,
  );
  const name = basename(directory).slice(-6);
  const server = createServer((socket) => socket.destroy()).unref();
  // Later errors do no harm: the kernel accepts connections nevertheless.
  server.on('error', () => {});
  try {
    await explained(
      once(server.listen(join(directory, name)), 'listening'),
      (code) =>
        `Cannot create a Unix socket for the lock of ${file} (${code}): its volume may not support them. Name a file on another volume.`,
    );
    const isLocked = await explained(
      takeLock(lock, directory),
      (code) => `Cannot use the lock ${lock} (${code}). If no process writes to ${file}, remove the lock.`,
    );
    if (isLocked) return () => release(server, lock, name);
    throw new Error(
      `Another process writes to ${file} (lock ${lock}). Stop it, or give each process a file: its name may contain a variable such as \${HOSTNAME}.`,
    );
  } catch (error) {
    server.close();
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}

/** @throws Error that says what to do */
async function explained<T>(work: Promise<T>, messageOf: (code: string) => string): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw new Error(messageOf(errorCode(error) ?? 'no code'), { cause: error });
  }
}

/** Gives the directory the name of the lock. @returns whether no other process holds it @throws Error of node:fs or node:net */
async function takeLock(lock: string, directory: string): Promise<boolean> {
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    try {
      await rename(directory, lock);
      return true;
    } catch (error) {
      // POSIX allows both, for a directory that is not empty.
      if (!['ENOTEMPTY', 'EEXIST'].includes(errorCode(error) ?? '')) throw error;
    }
    if (await isHeld(lock)) return false;
  }
  return false;
}

/** Whether a process holds the lock. Removes the sockets of those that have ended. @throws Error of node:fs or node:net */
async function isHeld(lock: string): Promise<boolean> {
  for (const name of (await ignoreNotFound(readdir(lock))) ?? []) {
    const state = await probe(join(lock, name));
    if (state === 'held') return true;
    if (state === 'dead') await ignoreNotFound(unlink(join(lock, name)));
  }
  return false;
}

/** @throws Error of node:net */
async function probe(path: string) {
  const socket = connect(path);
  try {
    await once(socket, 'connect');
    return 'held';
  } catch (error) {
    const state = states.get(errorCode(error));
    if (state === undefined) throw error;
    return state;
  } finally {
    socket.destroy();
  }
}

/** What cannot be removed is what a crash leaves: the next process removes it. */
async function release(server: Server, lock: string, name: string): Promise<void> {
  await new Promise((resolve) => void server.close(resolve));
  await unlink(join(lock, name)).catch(() => {});
  await rmdir(lock).catch(() => {});
}
