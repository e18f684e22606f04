import { unlink } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { ignoreNotFound } from '../util/consistent-read.ts';
import { errorCode } from '../util/error-code.ts';

/** `sun_path` of unix(7) has 108 bytes with its terminating zero, 104 on macOS. */
const maxPathBytes = 103;

/**
 * Locks a file for this process with a Unix socket beside it, FILE.lock. The kernel ends the lock with the process, and
 * it holds between containers that share the volume on one machine, where process IDs mean nothing.
 *
 * @returns releases the lock
 * @throws Error if another process has it
 */
export async function lockFile(file: string): Promise<() => Promise<void>> {
  const path = `${file}.lock`;
  if (Buffer.byteLength(path) > maxPathBytes) {
    throw new Error(
      `${path} is longer than ${maxPathBytes} bytes, the limit for a lock. Choose a shorter path.`,
    );
  }
  const server = (await tryListen(path)) ?? (await replaceStale(path));
  if (server === undefined) {
    throw new Error(
      `Another process writes to ${file} (lock ${path}). Stop it, or give each process a file: its name may contain a variable such as \${HOSTNAME}.`,
    );
  }
  server.unref();
  return () => new Promise((resolve) => void server.close(() => resolve()));
}

/** A process that was killed leaves its socket; nothing accepts connections there. */
async function replaceStale(path: string): Promise<Server | undefined> {
  if (await isAccepting(path)) return undefined;
  await ignoreNotFound(unlink(path));
  return tryListen(path);
}

/** @returns `undefined` if the path exists @throws Error if it cannot be created */
function tryListen(path: string): Promise<Server | undefined> {
  const server = createServer((socket) => socket.destroy());
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      const code = errorCode(error) ?? 'no code';
      if (code === 'EADDRINUSE') resolve(undefined);
      else reject(new Error(`Cannot create ${path} (${code}). Make its directory writable.`));
    });
    server.listen(path, () => resolve(server));
  });
}

function isAccepting(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (error) => {
      if (errorCode(error) === 'ECONNREFUSED') resolve(false);
      else reject(error);
    });
  });
}
