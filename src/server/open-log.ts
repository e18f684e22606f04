import { LogDestination } from '../observability/log-destination.ts';
import { createLogger, type Logger, type LogLevel } from '../observability/logger.ts';
import { standardOutput } from './standard-output.ts';

/** Milliseconds that a process which ends may take to write its last lines. */
const flushDeadline = 300;

export interface OpenLog {
  readonly log: Logger;
  readonly destination: LogDestination;
  /** Writes the lines that wait; gives up after {@link flushDeadline}. */
  readonly flush: () => Promise<void>;
}

/** A log on standard output, which slows nothing down when it cannot be written. */
export function openLog(level: LogLevel): OpenLog {
  const destination = new LogDestination({
    output: standardOutput(),
    monotonic: () => performance.now(),
  });
  const log = createLogger(level, destination);
  destination.watch({ recovered: (lines) => log.message('warn', 'log lines dropped', { lines }) });
  process.once('exit', () => destination.flushSync());
  return { log, destination, flush: () => destination.flush(flushDeadline) };
}
