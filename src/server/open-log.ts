import { LogDestination } from '../observability/log-destination.ts';
import { createLogger, type Logger, type LogLevel } from '../observability/logger.ts';
import { standardOutput } from './standard-output.ts';
import { system } from './system.ts';

/** Milliseconds to write the last lines at exit. */
const flushTimeout = 300;

export interface OpenLog {
  readonly log: Logger;
  readonly destination: LogDestination;
  /** Writes buffered lines; gives up after {@link flushTimeout}. */
  readonly flush: () => Promise<void>;
}

/** Opens the log on standard output. A blocked output does not slow down requests. */
export function openLog(level: LogLevel): OpenLog {
  const destination = new LogDestination({ output: standardOutput(), monotonic: system.monotonic });
  const log = createLogger(level, destination);
  destination.watch({ recovered: (lines) => log.message('warn', 'log lines dropped', { lines }) });
  process.once('exit', () => destination.flushSync());
  return { log, destination, flush: () => destination.flush(flushTimeout) };
}
