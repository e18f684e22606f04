import type { Log } from './log.ts';

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
export function sampleRejections(log: Log, { suppressed, monotonic }: SamplingPorts): Log {
  let tokens = burst;
  let checkedAt = monotonic();
  let skipped = 0;
  return {
    ...log,
    exchange(exchange) {
      if (exchange.caller !== undefined || exchange.reason === 'internal') return log.exchange(exchange);
      const now = monotonic();
      tokens = Math.min(burst, tokens + ((now - checkedAt) / 1000) * rate);
      checkedAt = now;
      if (tokens < 1) {
        skipped += 1;
        suppressed();
        return;
      }
      tokens -= 1;
      if (skipped > 0) log.note('warn', 'rejected requests without a log line', { count: skipped });
      skipped = 0;
      log.exchange(exchange);
    },
  };
}
