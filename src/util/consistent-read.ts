import { readFile, stat } from 'node:fs/promises';

/** Enough for any key. */
const keyBytes = 65_536;

/** Contents and times of files that belong together; a file that is not there has no content. */
export interface FileSet {
  readonly contents: readonly (Buffer | undefined)[];
  /** When the newest of them was last changed. */
  readonly changedAt: Date;
}

export interface ReadOptions {
  readonly read?: (path: string) => Promise<Buffer>;
  /** Of one file; 64 KiB unless given. */
  readonly maximumBytes?: number;
}

interface FileState {
  /** Differs whenever the file was written, or replaced by another. */
  readonly stamp: string;
  readonly changedAt: number;
}

/**
 * Reads files of one moment. Kubernetes replaces a mounted secret by turning the symbolic link `..data` to
 * another folder, which can happen between two files: a read during which any of them changed is thrown away
 * and done once more.
 *
 * @throws Error if the files change again, if one is not a plain file of at most `maximumBytes`, or as node:fs does.
 */
export async function readConsistent(paths: readonly string[], options: ReadOptions = {}): Promise<FileSet> {
  const all = { read: readFile, maximumBytes: keyBytes, ...options };
  return (
    (await tryReadConsistent(paths, all)) ??
    (await tryReadConsistent(paths, all)) ??
    Promise.reject(new Error('the files changed twice while they were read'))
  );
}

async function tryReadConsistent(
  paths: readonly string[],
  { read, maximumBytes }: Required<ReadOptions>,
): Promise<FileSet | undefined> {
  const stateOf = (path: string): Promise<FileState | undefined> => fileState(path, maximumBytes);
  const before = await Promise.all(paths.map(stateOf));
  const contents = await Promise.all(
    paths.map(async (path, index) => (before[index] === undefined ? undefined : ignoreNotFound(read(path)))),
  );
  const after = await Promise.all(paths.map(stateOf));
  if (before.some((state, index) => state?.stamp !== after[index]?.stamp)) return undefined;
  return { contents, changedAt: new Date(Math.max(0, ...after.map((state) => state?.changedAt ?? 0))) };
}

async function fileState(path: string, maximumBytes: number): Promise<FileState | undefined> {
  const found = await ignoreNotFound(stat(path, { bigint: true }));
  if (found === undefined) return undefined;
  if (!found.isFile()) throw new Error('a file is not a plain file');
  if (found.size > maximumBytes) throw new Error(`a file is larger than ${maximumBytes} bytes`);
  return {
    stamp: [found.dev, found.ino, found.size, found.mtimeNs, found.ctimeNs].join(' '),
    changedAt: Number(found.mtimeMs),
  };
}

/** `undefined` for a file or folder that does not exist; every other error stays an error. */
export async function ignoreNotFound<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (typeof error === 'object' && error !== null && 'code' in error && error.code === 'ENOENT')
      return undefined;
    throw error;
  }
}
