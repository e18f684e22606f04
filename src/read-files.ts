import { readFile, stat } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { errorCode } from './errors.ts';
import { type SecretForm, secretText } from './util/secret-text.ts';
import { utf8In } from './util/text.ts';

/** Large enough for any key. */
const maxKeyBytes = 65_536;
const maxTextBytes = 262_144;

/** Several files of the same moment. A file that does not exist has no content. */
export interface FileSet {
  readonly contents: readonly (Buffer | undefined)[];
  /** Modification time of the file that was changed last. */
  readonly changedAt: Date;
}

interface ReadOptions {
  readonly read?: (path: string) => Promise<Buffer>;
  /** Per file. Default: 64 KiB. */
  readonly maximumBytes?: number;
}

interface FileState {
  /** Changes whenever the file is written or replaced. */
  readonly stamp: string;
  readonly changedAt: number;
}

/**
 * Reads several files atomically: retries once if any of them changed during the read. Kubernetes replaces a mounted
 * secret by pointing the symbolic link `..data` to another directory, which can happen between two files.
 *
 * @throws Error if the files change again, if one is not a regular file or exceeds `maximumBytes`, or from node:fs
 */
export async function readConsistent(
  paths: readonly string[],
  { read = readFile, maximumBytes = maxKeyBytes }: ReadOptions = {},
): Promise<FileSet> {
  const states = () => Promise.all(paths.map((path) => fileState(path, maximumBytes)));
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    const before = await states();
    const contents = await Promise.all(
      paths.map(async (path, index) => before[index] && ignoreNotFound(read(path))),
    );
    const after = await states();
    if (isDeepStrictEqual(before, after))
      return { contents, changedAt: new Date(Math.max(0, ...after.map((state) => state?.changedAt ?? 0))) };
  }
  throw new Error('the files changed twice while they were read');
}

/** The text of a file of the configuration; as {@link readBytes}. */
export async function readText(file: string, maximumBytes = maxTextBytes): Promise<string> {
  const text = utf8In(await readBytes(file, maximumBytes));
  if (text === undefined) throw new Error(`${file}: is not text in UTF-8; save it as UTF-8`);
  return text;
}

/** A secret in a file of the configuration; as {@link readBytes}. */
export async function readSecret(file: string, form: SecretForm): Promise<string> {
  const read = secretText(await readBytes(file), form);
  if ('fault' in read) throw new Error(`${file}: ${read.fault}`);
  return read.text;
}

/**
 * A file of the configuration. Only a regular file: a read of another one may never end.
 *
 * @throws Error with a message for operators
 */
export async function readBytes(file: string, maximumBytes = maxTextBytes): Promise<Buffer> {
  const { contents } = await readConsistent([file], { maximumBytes }).catch((error: unknown) => {
    const cause = errorCode(error) ?? (error instanceof Error ? error.message : 'unknown error');
    throw new Error(`${file}: cannot be read (${cause})`);
  });
  if (contents[0] === undefined) throw new Error(`${file}: does not exist`);
  return contents[0];
}

async function fileState(path: string, maximumBytes: number): Promise<FileState | undefined> {
  const stats = await ignoreNotFound(stat(path, { bigint: true }));
  if (stats === undefined) return undefined;
  if (!stats.isFile()) throw new Error('one of the files is not a regular file');
  if (stats.size > maximumBytes) throw new Error(`one of the files is larger than ${maximumBytes} bytes`);
  return {
    stamp: [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(' '),
    changedAt: Number(stats.mtimeMs),
  };
}

/** Returns `undefined` if the file or directory does not exist. Other errors are rethrown. */
export async function ignoreNotFound<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
