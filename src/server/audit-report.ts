import type { Head } from '../audit/chain.ts';
import type { TrailObserver } from '../audit/trail.ts';
import type { Logger } from '../observability/logger.ts';
import type { MetricsObserver } from '../observability/metrics-observer.ts';
import { OutageLog } from '../observability/outage-log.ts';
import type { MonotonicClock } from '../util/clock.ts';

export interface AuditReportOptions extends MonotonicClock {
  readonly log: Pick<Logger, 'message'>;
  readonly metrics: Pick<
    MetricsObserver,
    'auditRecordsWritten' | 'auditRecordsLost' | 'auditRecordsOmitted' | 'auditUp'
  >;
}

/** Records after which the head is logged without waiting for the minute. */
const recordsBetweenReports = 10_000;

/** Publishes the state of the audit trail: the head, so that a truncated file shows, and failures. */
export class AuditReport implements TrailObserver {
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
