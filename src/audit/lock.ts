import { mkdtemp, readdir, rename, rm, rmdir, unlink } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { basename, join } from 'node:path';
import { ignoreNotFound } from '../util/consistent-read.ts';
import { errorCode } from '../util/error-code.ts';

/**
 * `sun_path` of unix(7) has 108 bytes with its terminating zero, 104 on macOS. Within that, the path of the socket is as long
 * as that of the lock and this.
 */
const maxLockBytes = 103 - '.XXXXXX/XXXXXX'.length;
/** Each further one is needed only if another process took or released the lock meanwhile. */
const maxAttempts = 20;

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
  const directory = await createDirectory(lock);
  const name = basename(directory).slice(-6);
  const server = createServer((socket) => socket.destroy()).unref();
  try {
    await listen(server, join(directory, name), file);
    await moveTo(lock, directory, file);
  } catch (error) {
    server.close();
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
  return () => release(server, lock, name);
}

async function createDirectory(lock: string): Promise<string> {
  if (Buffer.byteLength(lock) > maxLockBytes) {
    throw new Error(
      `${lock} is longer than ${maxLockBytes} bytes, the limit for a lock. Choose a shorter path.`,
    );
  }
  try {
    return await mkdtemp(`${lock}.`);
  } catch (error) {
    throw new Error(
      `Cannot create ${lock} (${codeOf(error)}). Make its directory writable, on a disk that has room.`,
      { cause: error },
    );
  }
}

function listen(server: Server, path: string, file: string): Promise<void> {
  return new Promise((resolve, reject) => {
    // Also later ones, which do no harm: the kernel accepts connections nevertheless.
    server.on('error', (error) =>
      reject(
        new Error(
          `Cannot create a Unix socket for the lock of ${file} (${codeOf(error)}): its volume may not support them. Name a file on another volume.`,
          { cause: error },
        ),
      ),
    );
    server.listen(path, resolve);
  });
}

async function moveTo(lock: string, directory: string, file: string): Promise<void> {
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    try {
      if (await tryRename(directory, lock)) return;
      if (await isHeld(lock)) break;
    } catch (error) {
      throw new Error(
        `Cannot use the lock ${lock} (${codeOf(error)}). If no process writes to ${file}, remove the lock.`,
        { cause: error },
      );
    }
  }
  throw new Error(
    `Another process writes to ${file} (lock ${lock}). Stop it, or give each process a file: its name may contain a variable such as \${HOSTNAME}.`,
  );
}

/** @returns whether there was no lock, or an empty one @throws Error of node:fs */
async function tryRename(directory: string, lock: string): Promise<boolean> {
  try {
    await rename(directory, lock);
    return true;
  } catch (error) {
    // POSIX allows both.
    if (codeOf(error) === 'ENOTEMPTY' || codeOf(error) === 'EEXIST') return false;
    throw error;
  }
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

/** `changed`: released in this moment. */
type State = 'held' | 'dead' | 'changed';

const states: ReadonlyMap<string, State> = new Map([
  // So many connections wait for a process that accepts none now that there is no room for another.
  ['EAGAIN', 'held'],
  ['ECONNREFUSED', 'dead'],
  ['ECONNRESET', 'changed'],
  ['ENOENT', 'changed'],
]);

/** @throws Error of node:net */
function probe(path: string): Promise<State> {
  return new Promise((resolve, reject) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve('held');
    });
    socket.once('error', (error) => {
      const state = states.get(codeOf(error));
      if (state === undefined) reject(error);
      else resolve(state);
    });
  });
}

/** What cannot be removed is what a crash leaves: the next process removes it. */
async function release(server: Server, lock: string, name: string): Promise<void> {
  await new Promise((resolve) => void server.close(resolve));
  await unlink(join(lock, name)).catch(() => {});
  await rmdir(lock).catch(() => {});
}

function codeOf(error: unknown): string {
  return errorCode(error) ?? 'no code';
}
