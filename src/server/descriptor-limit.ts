import { readFileSync } from 'node:fs';
import type { Config } from '../config/schema.ts';
import type { Logger } from '../observability/logger.ts';

/** For files, standard streams, listeners, the event loop, and connections to the key source. */
const reserve = 100;

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
