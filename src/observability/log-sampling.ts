import { errorTable } from '../errors.ts';
import type { RequestContext } from '../request-context.ts';
import type { Logger } from './logger.ts';

/** Lines at once, and lines per second after that. */
const burst = 100;
const rate = 20;

export interface SamplingPorts {
  /** A line was not written. */
  readonly suppressed: () => void;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
}

/**
 * A log in which requests that were rejected before their caller was known have a line each only up to a rate: they
 * cost their sender less than a line costs us. Every one of them is still counted in the metrics.
 */
export function sampleRejections(log: Logger, { suppressed, monotonic }: SamplingPorts): Logger {
  let tokens = burst;
  let checkedAt = monotonic();
  let skipped = 0;
  return {
    ...log,
    requestFinished(exchange) {
      if (!isSampled(exchange)) return log.requestFinished(exchange);
      const now = monotonic();
      tokens = Math.min(burst, tokens + ((now - checkedAt) / 1000) * rate);
      checkedAt = now;
      if (tokens < 1) {
        skipped += 1;
        suppressed();
        return;
      }
      tokens -= 1;
      if (skipped > 0) log.message('warn', 'rejected requests without a log line', { count: skipped });
      skipped = 0;
      log.requestFinished(exchange);
    },
  };
}

/** What the server itself could not do always has its line. */
function isSampled({ caller, reason }: RequestContext): boolean {
  return caller === undefined && reason !== undefined && errorTable[reason].status < 500;
}
