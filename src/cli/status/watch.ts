import { setTimeout as wait } from 'node:timers/promises';
import { exitCode } from '../shared/io.ts';

/** What one reading shows. */
export interface Reading {
  readonly lines: readonly string[];
  /** There is no status, and the lines say why. */
  readonly failed: boolean;
  /** Of the command, if this is the last reading. */
  readonly exit: number;
}

export interface WatchOptions {
  /** Milliseconds between two readings. */
  readonly interval: number;
  /** Ends the loop, also within a reading. */
  readonly stop: AbortSignal;
  readonly show: (reading: Reading) => void;
}

/**
 * Shows a reading at once and one after each interval until it is stopped.
 *
 * @returns the exit code of the last reading; failed without one
 */
export async function watch(
  read: (stop: AbortSignal) => Promise<Reading>,
  { interval, stop, show }: WatchOptions,
): Promise<number> {
  let exit: number = exitCode.failed;
  while (!stop.aborted) {
    const reading = await read(stop);
    // A reading that the signal ended says nothing about the instance.
    if (stop.aborted) break;
    exit = reading.exit;
    show(reading);
    // Rejects only when it is stopped.
    await wait(interval, undefined, { signal: stop }).catch(() => {});
  }
  return exit;
}

/** Aborts at SIGINT or SIGTERM, and when the reader of the output is gone, such as `head`. */
export function untilStopped(): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController();
  const stop = (): void => controller.abort();
  process.once('SIGINT', stop).once('SIGTERM', stop);
  process.stdout.once('error', stop);
  return {
    signal: controller.signal,
    release() {
      process.off('SIGINT', stop).off('SIGTERM', stop);
      process.stdout.off('error', stop);
    },
  };
}
