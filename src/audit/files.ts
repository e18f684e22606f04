import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../errors.ts';
import { type Head, parseRecord } from './chain.ts';
import type { AuditOutput, Earlier, WriteResult } from './trail.ts';

/** Time of the start and instance; then the number of the file. */
const namePattern = /^(\d{8}T\d{6}\.\d{3}Z-([\w.-]+))-(\d{4,})\.jsonl$/;

/** Of a file, from its end, in parts: a power failure may leave many zeros after the last record. */
const searched = { bytes: 131_072, most: 67_108_864 };

/** Readable for a group, so that a log shipper need not be the same user. */
const mode = 0o640;

/** Which start of which instance wrote a file; absent if its name is none of a trail. */
export function originOf(file: string): { readonly start: string; readonly instance: string } | undefined {
  const [, start, instance] = namePattern.exec(file) ?? [];
  return start === undefined || instance === undefined ? undefined : { start, instance };
}

/** For a sort in the order in which files were begun. */
export function inOrder(one: string, other: string): number {
  return one.localeCompare(other, 'en', { numeric: true });
}

/** The files of a trail in a directory, in order. @throws Error of node:fs */
export async function trailFilesIn(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && originOf(entry.name) !== undefined);
  return files.map(({ name }) => name).sort(inOrder);
}

interface FileOptions {
  readonly directory: string;
  readonly instance: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** Wait until the disk has what was written. */
  readonly sync: boolean;
  /** The next file cannot be created, so the records go to the one before. */
  readonly beginFailed: (error: unknown) => void;
}

/** The files of one start of a process. Each is created by it, so no other process writes to them. */
export class AuditFiles implements AuditOutput {
  readonly #options: FileOptions;
  readonly before: Earlier | undefined;
  #handle: FileHandle;

  private constructor(options: FileOptions, before: Earlier | undefined, handle: FileHandle) {
    this.#options = options;
    this.before = before;
    this.#handle = handle;
  }

  /** @throws Error of node:fs */
  static async open(options: FileOptions): Promise<AuditFiles> {
    const { directory, instance } = options;
    const files = await trailFilesIn(directory);
    const own = files.filter((file) => originOf(file)?.instance === safe(instance));
    // Later than the start before also where the clock was set back: the names have the order of the starts.
    const startedAt = Math.max(options.startedAt, startIn(own.at(-1)) + 1);
    const named = { ...options, startedAt };
    const before = await newestRecord(directory, own);
    return new AuditFiles(named, before, await create(named, nameOf(named, 1)));
  }

  nameOf(number: number): string {
    return nameOf(this.#options, number);
  }

  async begin(file: string): Promise<void> {
    try {
      const handle = await create(this.#options, file);
      const previous = this.#handle;
      this.#handle = handle;
      await previous.close();
    } catch (error) {
      this.#options.beginFailed(error);
    }
  }

  async write(lines: Buffer): Promise<WriteResult> {
    let written = 0;
    try {
      while (written < lines.length) written += (await this.#handle.write(lines, written)).bytesWritten;
      if (this.#options.sync) await this.#handle.datasync();
      return { written, confirmed: written };
    } catch (error) {
      return { written, confirmed: this.#options.sync ? 0 : written, error: errorCode(error) ?? 'other' };
    }
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}

/** @throws Error of node:fs */
async function newestRecord(directory: string, files: readonly string[]): Promise<Earlier | undefined> {
  for (const file of files.toReversed()) {
    const record = await lastRecordOf(join(directory, file));
    if (record !== undefined) return { file, sequence: record.sequence, mac: record.mac };
  }
  return undefined;
}

/** @throws Error of node:fs */
async function lastRecordOf(path: string): Promise<Head | undefined> {
  const handle = await open(path);
  try {
    const { size } = await handle.stat();
    let record: Head | undefined;
    for (let end = size; !record && end > Math.max(0, size - searched.most); end -= searched.bytes / 2) {
      const from = Math.max(0, end - searched.bytes);
      const { buffer } = await handle.read(Buffer.alloc(end - from), 0, end - from, from);
      const lines = buffer.toString('latin1').split('\n');
      record = lines.map((line) => parseRecord(Buffer.from(line, 'latin1'))).findLast(Boolean);
    }
    return record;
  } finally {
    await handle.close();
  }
}

/** The name of a file, of characters that are safe everywhere. */
function nameOf({ instance, startedAt }: FileOptions, number: number): string {
  const time = new Date(startedAt).toISOString().replace(/[-:]/g, '');
  return `${time}-${safe(instance)}-${String(number).padStart(4, '0')}.jsonl`;
}

/** The time in the name of a file, in milliseconds since 1970; 0 without a file. */
function startIn(file = ''): number {
  const time = file.slice(0, 20).replace(/^(....)(..)(.....)(..)/, '$1-$2-$3:$4:');
  return Date.parse(time) || 0;
}

function safe(instance: string): string {
  return instance.replace(/[^\w.-]/g, '_');
}

/** @throws Error of node:fs, also if the file exists */
async function create({ directory, sync }: FileOptions, file: string): Promise<FileHandle> {
  const handle = await open(join(directory, file), 'ax', mode);
  if (!sync) return handle;
  // Its name survives a power failure, too.
  const folder = await open(directory);
  try {
    await folder.sync();
    return handle;
  } finally {
    await folder.close();
  }
}
