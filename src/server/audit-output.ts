import type { AuditOutput } from '../audit/output.ts';
import type { LogDestination } from '../observability/log-destination.ts';

/** Writes audit records through the log, so that no line of one is within a line of the other. */
export function auditToLog(destination: LogDestination): AuditOutput {
  return {
    async write(lines) {
      const { promise, resolve } = Promise.withResolvers<number>();
      destination.write(lines.toString(), resolve);
      const written = await promise;
      // The destination finishes a line that is partly written, so this is the end of a line.
      const result = { written, confirmed: written };
      return written === lines.length ? result : { ...result, error: 'dropped' };
    },
    refresh: async () => false,
    close: async () => {},
  };
}
