import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, realpath, stat } from 'node:fs/promises';
import type { MonotonicClock } from '../util/clock.ts';
import { ignoreNotFound } from '../util/consistent-read.ts';
import { errorCode } from '../util/error-code.ts';
import { lockFile } from './lock.ts';
import type { AuditOutput, WriteResult } from './output.ts';
import { readTail, type Tail } from './tail.ts';

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
): Promise<{ file: AuditFile; tail: Tail }> {
  const handle = await openRegular(path);
  try {
    // Whatever the name by which another process knows the file.
    const unlock = await lockFile(await realpath(path));
    try {
      const tail = await requireTail(handle, path);
      return { file: new AuditFile(path, options, handle, unlock), tail };
    } catch (error) {
      await unlock();
      throw error;
    }
  } catch (error) {
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

  /** Makes the next {@link refresh} look at the file at once. */
  checkNow(): void {
    this.#checkedAt = Number.NEGATIVE_INFINITY;
  }

  async refresh(): Promise<boolean> {
    const now = this.#options.monotonic();
    if (now < this.#checkedAt + checkInterval) return false;
    this.#checkedAt = now;
    const [own, current] = await Promise.all([this.#handle.stat(), ignoreNotFound(stat(this.#path))]);
    if (current !== undefined && isSameFile(own, current)) return false;
    try {
      return await this.#reopen();
    } catch (error) {
      if (own.nlink > 0) {
        if (!this.#reopenFailed) this.#options.onReopenFailed(error);
        this.#reopenFailed = true;
        return false;
      }
      this.checkNow();
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

async function requireTail(handle: FileHandle, path: string): Promise<Tail> {
  const tail = await readTail(handle);
  if (tail !== undefined) return tail;
  throw new Error(`${path} has content that is not an audit trail. Move it away, or name another file.`);
}

function isSameFile(a: Stats, b: Stats): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}
