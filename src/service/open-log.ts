import { constants, fstatSync, openSync, write, writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { promisify } from 'node:util';
import type { LogLevel } from '../config/schema/values.ts';
import { LogDestination, type Output } from '../observability/log-destination.ts';
import { createLogger } from '../observability/logger.ts';
import { system } from './system.ts';

const writeLater = promisify(write);

/** Milliseconds to write the last lines at exit. */
const flushTimeout = 300;

export type OpenLog = ReturnType<typeof openLog>;

/** Opens the log on standard output. A blocked output does not slow down requests. */
export function openLog(level: LogLevel) {
  const destination = new LogDestination({ output: standardOutput(), monotonic: system.monotonic });
  const log = createLogger(level, destination);
  destination.onRecovery = (lines) => log.message('warn', 'log lines dropped', { lines });
  process.once('exit', () => destination.flushSync());
  /** Writes buffered lines; gives up after {@link flushTimeout}. */
  const flush = () => destination.flush(flushTimeout);
  return { log, destination, flush };
}

/**
 * Standard output that never blocks on its reader. A blocked write would hold the event loop, or a thread of Node's
 * pool, which delays the exit of the process.
 */
function standardOutput(): Output {
  const stdout = 1;
  if (isatty(stdout)) return terminal(stdout);
  const kind = fstatSync(stdout);
  if (!kind.isFIFO() && !kind.isSocket()) return file(stdout);
  // Node makes a pipe or socket non-blocking as soon as it has a stream for it; fs alone cannot.
  return nonBlocking(process.stdout.fd);
}

/** A full or failing disk returns an error; a slow one keeps one thread busy. */
function file(descriptor: number): Output {
  return {
    write: async (bytes) => (await writeLater(descriptor, bytes)).bytesWritten,
    writeSync: (bytes) => writeSync(descriptor, bytes),
  };
}

/** Fails with EAGAIN if the reader has stalled. */
function nonBlocking(descriptor: number): Output {
  const writeNow = (bytes: Buffer): number => writeSync(descriptor, bytes);
  return { write: async (bytes) => writeNow(bytes), writeSync: writeNow };
}

/** Reopened, so that it is non-blocking for this process only: Ctrl-S may pause the output. */
function terminal(descriptor: number): Output {
  try {
    const flags = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
    return nonBlocking(openSync(`/dev/fd/${descriptor}`, flags));
  } catch {
    // The terminal belongs to another user, or the system has no /dev/fd.
    return file(descriptor);
  }
}
