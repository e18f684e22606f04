import { hostname } from 'node:os';
import { AuditLog } from '../audit/audit-log.ts';
import { type Head, isGenuine } from '../audit/chain.ts';
import { type AuditFile, openAuditFile } from '../audit/file.ts';
import { type AuditKey, readAuditKey } from '../audit/key.ts';
import type { AuditOutput } from '../audit/output.ts';
import { members } from '../audit/record-fields.ts';
import type { Tail } from '../audit/tail.ts';
import { AuditTrail, type TrailObserver } from '../audit/trail.ts';
import { standardOutput } from '../config/schema/audit.ts';
import type { AuditConfig } from '../config/schema.ts';
import type { LogDestination } from '../observability/log-destination.ts';
import type { Logger } from '../observability/logger.ts';
import type { MetricsObserver } from '../observability/metrics-observer.ts';
import { OutageLog } from '../observability/outage-log.ts';
import { type MonotonicClock, setTimer, type WallClock } from '../util/clock.ts';
import { packageVersion } from '../util/package-info.ts';

interface AuditReportOptions extends MonotonicClock {
  readonly log: Pick<Logger, 'message'>;
  readonly metrics: Pick<
    MetricsObserver,
    'auditRecordsWritten' | 'auditRecordsLost' | 'auditRecordsOmitted' | 'auditUp'
  >;
}

/** Records after which the head is logged without waiting for the minute. */
const recordsBetweenReports = 10_000;

interface AuditOptions extends AuditReportOptions, WallClock {
  /** SHA-256 over the bytes of the configuration file, hex. */
  readonly digest: string;
  /** Needed for a trail on standard output. */
  readonly logDestination?: LogDestination | undefined;
}

/** The audit trail of the process. */
export interface Audit {
  readonly log: AuditLog;
  /** Whether records are required and cannot be written. */
  isUnavailable(): boolean;
  /** Records that a reload applied another configuration. @param digest as {@link AuditOptions.digest} */
  configApplied(digest: string): void;
  /** Follows a file that was renamed, and reads the key again. @throws Error for an unusable key; it stays the same */
  reopen(): Promise<void>;
  /** Writes what waits, for the given number of milliseconds at most. */
  close(milliseconds: number): Promise<void>;
}

/** Milliseconds between log lines with the head, and between counts of omitted records. */
const reportInterval = 60_000;
const emptyTail: Tail = { isOpen: false };

/** @throws Error if the file cannot be opened or has another writer, or if the key is unusable */
export async function openAudit(config: AuditConfig, options: AuditOptions): Promise<Audit> {
  const { log, metrics, clock } = options;
  let { digest } = options;
  let key = await readAuditKey(config.keyFile);
  const { output, file, tail } = await openOutput(config, options);
  warnOfAlteredRecord(key, tail, log);
  warnOfDamage(tail, log);
  const report = new AuditReport(options);
  const trail = new AuditTrail({
    key,
    instance: hostname(),
    output,
    tail,
    observer: report,
    startFields: (start) =>
      members(clock(), { version: packageVersion(), pid: process.pid, config: digest, ...start }),
    gapFields: (lost) => members(clock(), { lost }),
    setTimer,
  });
  const auditLog = new AuditLog({
    ...options,
    trail,
    required: config.required,
    recordsOmitted: (count) => metrics.auditRecordsOmitted(count),
  });
  const timer = setInterval(() => {
    auditLog.recordOmitted();
    report.logHead();
  }, reportInterval).unref();
  return {
    log: auditLog,
    isUnavailable: () => config.required && trail.failing,
    configApplied(applied) {
      digest = applied;
      trail.append('config', members(clock(), { config: digest }));
    },
    async reopen() {
      file?.checkNow();
      trail.refresh();
      const next = await readAuditKey(config.keyFile);
      if (next.id !== key.id) trail.refresh(next);
      key = next;
    },
    async close(milliseconds) {
      clearInterval(timer);
      auditLog.recordOmitted();
      const unwritten = await trail.close(members(clock(), {}), milliseconds);
      if (unwritten > 0) log.message('error', 'audit records lost', { records: unwritten });
      report.logHead();
    },
  };
}

/** Starts what uses the trail. If that throws, the trail is closed, so that its lock is released. */
export async function closingOnError<T>(
  audit: Pick<Audit, 'close'> | undefined,
  milliseconds: number,
  start: () => T,
): Promise<T> {
  try {
    return start();
  } catch (error) {
    await audit?.close(milliseconds);
    throw error;
  }
}

async function openOutput(
  { file: path, sync }: AuditConfig,
  { log, logDestination, monotonic }: AuditOptions,
): Promise<{ output: AuditOutput; file?: AuditFile; tail: Tail }> {
  if (path === standardOutput) {
    if (logDestination === undefined) throw new TypeError('an audit trail on standard output needs the log');
    return { output: auditToLog(logDestination), tail: emptyTail };
  }
  const { file, tail } = await openAuditFile(path, {
    sync,
    monotonic,
    onReopenFailed: failure(
      log,
      'the audit file was renamed, and no new one can be opened; records go to the old one',
    ),
    onCloseFailed: failure(
      log,
      'the renamed audit file could not be closed: its last records may be missing; verify it',
    ),
  });
  return { output: file, file, tail };
}

function failure(log: AuditOptions['log'], message: string): (error: unknown) => void {
  return (error) =>
    log.message('error', message, { cause: error instanceof Error ? error.message : 'unknown' });
}

/** The trail continues nevertheless: to stop payments, anyone who can write to the file would only have to alter it. */
function warnOfAlteredRecord(key: AuditKey, { last }: Tail, log: AuditOptions['log']): void {
  if (last === undefined || last.record.key !== key.id || isGenuine(last.line, key)) return;
  log.message('error', 'the last audit record was altered: verify the file, and keep a copy as evidence', {
    sequence: last.record.sequence,
  });
}

function warnOfDamage({ damaged = 0 }: Tail, log: AuditOptions['log']): void {
  if (damaged === 0) return;
  log.message(
    'error',
    'the audit file ends with lines that are no records: verify the file, and keep a copy as evidence',
    { bytes: damaged },
  );
}

/** Writes audit records through the log, so that no line of one is within a line of the other. */
function auditToLog(destination: LogDestination): AuditOutput {
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

/** Publishes the state of the audit trail: the head, so that a truncated file shows, and failures. */
class AuditReport implements TrailObserver {
  readonly #options: AuditReportOptions;
  readonly #outage: OutageLog;
  #head: Head | undefined;
  #reported = 0;

  constructor(options: AuditReportOptions) {
    this.#options = options;
    const messages = {
      failed: 'audit records cannot be written',
      recovered: 'audit records are written again',
    };
    this.#outage = new OutageLog({ ...options, source: 'audit', messages });
  }

  readonly recordsWritten = (count: number, head: Head): void => {
    const { metrics } = this.#options;
    metrics.auditRecordsWritten(count, head);
    metrics.auditUp(true);
    this.#outage.answered();
    this.#head = head;
    if (head.sequence >= this.#reported + recordsBetweenReports) this.logHead();
  };

  readonly recordsLost = (count: number): void => this.#options.metrics.auditRecordsLost(count);

  readonly writeFailed = (cause: string): void => {
    this.#options.metrics.auditUp(false, cause);
    this.#outage.failed(cause);
  };

  /** Logs the head if it has moved since the last time. */
  logHead(): void {
    if (this.#head === undefined || this.#head.sequence === this.#reported) return;
    const { sequence, mac } = this.#head;
    this.#reported = sequence;
    this.#options.log.message('info', 'audit head', { sequence, mac });
  }
}
