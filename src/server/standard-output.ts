import { constants, fstatSync, openSync, write, writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import type { Output, WriteError } from '../observability/log-destination.ts';

/**
 * Standard output that never blocks on its reader. A blocked write would hold the event loop, or a thread of Node's
 * pool, which delays the exit of the process.
 */
export function standardOutput(): Output {
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
    write: (bytes, done) => write(descriptor, bytes, (error, written) => done(error ?? undefined, written)),
    writeSync: (bytes) => writeSync(descriptor, bytes),
  };
}

/** Fails with EAGAIN if the reader has stalled. */
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
