import type { Logger } from '../observability/logger.ts';

/**
 * The first patch of each Node release line in which a kept-alive connection cannot be made to take one
 * reply for another's. Before them, payments are safe all the same: they use a connection of their own.
 */
const patchedNodeVersions: Readonly<Record<string, readonly [minor: number, patch: number]>> = {
  22: [23, 4],
  24: [22, 1],
  26: [12, 1],
};

export function isPatchedNodeVersion(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.replace(/^v/, '').split('.').map(Number);
  const first = patchedNodeVersions[major];
  if (first === undefined) return major > 26;
  return minor > first[0] || (minor === first[0] && patch >= first[1]);
}

/** Milliseconds from a defect to the exit of the process, whatever happens meanwhile. */
const exitDeadline = 2_000;

export interface CrashHandlers {
  /** @param abort ends what the process is doing; called once, before a defect ends the process */
  beforeExit(abort: () => Promise<void>): void;
}

/**
 * Warns about an old Node, and ends the process after a defect with exit code 1, without printing what the error
 * holds.
 *
 * @param flush writes the log lines that wait
 */
export function installCrashHandlers(log: Logger, flush: () => Promise<void>): CrashHandlers {
  if (!isPatchedNodeVersion(process.version)) {
    log.message(
      'warn',
      'use Node 22.23.4, 24.22.1, 26.12.1 or later: earlier ones can mix up replies on kept-alive connections',
      { node: process.version },
    );
  }
  let abort = (): Promise<void> => Promise.resolve();
  let exiting = false;
  const exit = async (): Promise<void> => {
    try {
      await abort();
    } catch (failure) {
      reportDefect(log, 'abort', failure);
    }
    await flush();
    process.exit(1);
  };
  process.on('uncaughtException', (error: unknown, origin) => {
    reportDefect(log, origin, error);
    // Another one during the abort does not stop it.
    if (exiting) return;
    exiting = true;
    setTimeout(() => process.exit(1), exitDeadline);
    void exit();
  });
  return {
    beforeExit: (next) => {
      abort = next;
    },
  };
}

function reportDefect(log: Logger, origin: string, error: unknown): void {
  try {
    log.crash(origin, error);
  } catch {
    // Something was thrown that throws when it is looked at. Node would print it if this handler failed.
    log.crash(origin, undefined);
  }
}
