import { constants, fstatSync, openSync, write, writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import type { Output, WriteError } from '../observability/log-destination.ts';

/**
 * Standard output, as one that never waits for its reader. A write that blocked would hold the event loop, or a
 * thread of Node's pool, for which the exit of the process waits.
 */
export function standardOutput(): Output {
  const stdout = 1;
  if (isatty(stdout)) return terminal(stdout);
  const kind = fstatSync(stdout);
  if (!kind.isFIFO() && !kind.isSocket()) return file(stdout);
  // Node makes a pipe or socket non-blocking as soon as it has a stream for it; fs alone cannot.
  return nonBlocking(process.stdout.fd);
}

/** A full disk or one that fails gives an error; a slow one keeps one thread busy. */
function file(descriptor: number): Output {
  return {
    write: (bytes, done) => write(descriptor, bytes, (error, written) => done(error ?? undefined, written)),
    writeSync: (bytes) => writeSync(descriptor, bytes),
  };
}

/** EAGAIN where the reader has stalled. */
function nonBlocking(descriptor: number): Output {
  const writeNow = (bytes: Buffer): number => writeSync(descriptor, bytes);
  return {
    write: (bytes, done) => {
      let written = 0;
      let failure: WriteError | undefined;
      try {
        written = writeNow(bytes);
      } catch (error) {
        failure = error instanceof Error ? error : new Error('thrown');
      }
      done(failure, written);
    },
    writeSync: writeNow,
  };
}

/** Opened anew, so that it is non-blocking for this process only: a person may hold the output with Ctrl-S. */
function terminal(descriptor: number): Output {
  try {
    const flags = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
    return nonBlocking(openSync(`/dev/fd/${descriptor}`, flags));
  } catch {
    // The terminal belongs to another user, or the system has no such folder.
    return file(descriptor);
  }
}
