import type { LogLevel } from '../config/schema/values.ts';
import { LogDestination } from '../observability/log-destination.ts';
import { createLogger } from '../observability/logger.ts';
import { system } from './system.ts';

/** Milliseconds to write the last lines at exit. */
const flushTimeout = 1_000;

export type OpenLog = ReturnType<typeof openLog>;

/** Opens the log on standard output. A blocked output does not slow down requests. */
export function openLog(level: LogLevel) {
  // Node makes a pipe or socket non-blocking as soon as it has a stream for it. A write that blocks would keep the
  // process from its end.
  const descriptor = process.stdout.fd;
  const destination = new LogDestination({ descriptor, monotonic: system.monotonic });
  const log = createLogger(level, destination);
  destination.onRecovery = (lines) => log.message('warn', 'log lines dropped', { lines });
  /** Writes buffered lines; gives up after {@link flushTimeout}. */
  const flush = () => destination.flush(flushTimeout);
  return { log, destination, flush };
}
