import { hostname } from 'node:os';
import { AuditLog } from '../audit/audit-log.ts';
import type { Head } from '../audit/chain.ts';
import { AuditFiles } from '../audit/files.ts';
import { readAuditKey } from '../audit/key.ts';
import { type AuditOutput, AuditTrail } from '../audit/trail.ts';
import type { AuditConfig } from '../config/schema.ts';
import type { EventObserver } from '../observability/events.ts';
import type { LogDestination } from '../observability/log-destination.ts';
import type { Logger } from '../observability/logger.ts';
import { createOutageLog } from '../observability/outages.ts';
import { type MonotonicClock, setTimer, type WallClock } from '../util/clock.ts';
import { packageVersion } from './package-info.ts';

/** Milliseconds between log lines with the head, and between counts of omitted records. */
const reportInterval = 60_000;

interface AuditOptions extends WallClock, MonotonicClock {
  readonly log: Pick<Logger, 'message'>;
  readonly metrics: Pick<
    EventObserver,
    'auditRecordsWritten' | 'auditRecordsLost' | 'auditRecordsOmitted' | 'auditUp'
  >;
  /** SHA-256 over the bytes of the configuration file, hex. */
  readonly digest: string;
  /** Of the records; the name of the host unless given. */
  readonly instance?: string;
  /** Needed for a trail on standard output. */
  readonly logDestination?: LogDestination | undefined;
}

export type Audit = Awaited<ReturnType<typeof openAudit>>;

/**
 * Opens the audit trail of the process.
 *
 * @throws Error if its file cannot be created, or if the key is unusable
 */
export async function openAudit({ keyFile, required, ...config }: AuditConfig, options: AuditOptions) {
  const { log, metrics, clock, instance = hostname() } = options;
  let { digest } = options;
  const key = await readAuditKey(keyFile);
  const output = await openOutput(config, instance, options);
  const report = createReport(options);
  const trail = new AuditTrail({
    key,
    instance,
    output,
    observer: report,
    process: () => ({ version: packageVersion(), pid: process.pid, config: digest }),
    clock,
    setTimer,
  });
  const auditLog = new AuditLog({
    ...options,
    trail,
    required,
    recordsOmitted: (count) => metrics.auditRecordsOmitted(count),
  });
  const timer = setInterval(() => {
    auditLog.recordOmitted();
    report.logHead();
  }, reportInterval).unref();
  return {
    log: auditLog,
    /** Whether records are required and cannot be written. */
    isUnavailable: () => required && trail.failing,
    /** Records that a person released a claimed order ID. @returns whether it was written in time */
    released: (fields: Readonly<Record<string, unknown>>) => trail.confirm('released', fields),
    /** Records that a reload applied another configuration. @param applied as {@link AuditOptions.digest} */
    configApplied(applied: string): void {
      digest = applied;
      trail.append('config', { config: digest });
    },
    /** Begins the next file, with the key as it is now. @throws Error for an unusable key; nothing changes */
    reopen: async () => trail.next(await readAuditKey(keyFile)),
    /** Writes what waits, for the given number of milliseconds at most. */
    async close(milliseconds: number): Promise<void> {
      clearInterval(timer);
      auditLog.recordOmitted();
      const unwritten = await trail.close(milliseconds);
      if (unwritten > 0) log.message('error', 'audit records lost', { records: unwritten });
      report.logHead();
    },
  };
}

/** @throws Error of node:fs */
async function openOutput(
  { directory, sync }: Pick<AuditConfig, 'directory' | 'sync'>,
  instance: string,
  { log, clock, logDestination }: AuditOptions,
): Promise<AuditOutput> {
  if (directory === undefined) return auditToLog(logDestination);
  const beginFailed = (error: unknown): void => {
    const cause = error instanceof Error ? error.message : 'unknown';
    log.message('error', 'the next audit file cannot be begun; records go to the one before', { cause });
  };
  return AuditFiles.open({ directory, instance, startedAt: clock(), sync, beginFailed });
}

/** Writes audit records through the log, so that no line of one is within a line of the other. */
function auditToLog(destination: LogDestination | undefined): AuditOutput {
  if (destination === undefined) throw new TypeError('an audit trail on standard output needs the log');
  return {
    async write(lines) {
      if (!destination.hasRoom) return { written: 0, confirmed: 0, error: 'dropped' };
      destination.write(lines.toString());
      await destination.written();
      return { written: lines.length, confirmed: lines.length };
    },
    close: async () => {},
  };
}

/** Publishes the state of the audit trail: the head, so that a truncated file shows, and failures. */
function createReport({ log, metrics, monotonic }: AuditOptions) {
  const messages = {
    failed: 'audit records cannot be written',
    recovered: 'audit records are written again',
  };
  const outage = createOutageLog({ log, monotonic, source: 'audit', messages });
  let head: Head | undefined;
  let reported = 0;
  /** Logs the head if it has moved since the last time. */
  const logHead = (): void => {
    if (head === undefined || head.sequence === reported) return;
    reported = head.sequence;
    log.message('info', 'audit head', { sequence: reported, mac: head.mac });
  };
  return {
    logHead,
    recordsWritten(newest: Head): void {
      metrics.auditRecordsWritten(newest);
      metrics.auditUp(true);
      outage(true);
      head = newest;
    },
    recordsLost: (count: number): void => metrics.auditRecordsLost(count),
    writeFailed(cause: string): void {
      metrics.auditUp(false, cause);
      outage(false, cause);
    },
  };
}
