import type { MetricFactory } from './metric-factory.ts';
import type { MetricsObserver } from './metrics-observer.ts';

/** Metrics of the audit trail. */
export function auditMetrics({ counter, gauge }: MetricFactory) {
  return {
    auditRecords: counter('audit_records_total', 'Number of audit records written.', []),
    auditLost: counter(
      'audit_records_lost_total',
      'Number of audit records lost because they could not be written.',
      [],
    ),
    auditOmitted: counter(
      'audit_records_omitted_total',
      'Number of requests rejected before authentication without an audit record because of the rate limit.',
      [],
    ),
    auditUp: gauge(
      'audit_up',
      '1 if the last write of audit records succeeded. Absent without an audit trail.',
      [],
    ),
    auditSequence: gauge(
      'audit_sequence',
      'Sequence number of the newest audit record. Absent before the first one.',
      [],
    ),
    auditHead: gauge(
      'audit_head',
      'First 48 bits of the MAC of the newest audit record, as a number. Absent before the first one.',
      [],
    ),
  };
}

/** A number holds 53 bits exactly, which are 13 hex digits; 12 are whole bytes. */
const headDigits = 12;

/** Turns events of the audit trail into metrics. */
export function createAuditRecorder(metrics: ReturnType<typeof auditMetrics>) {
  return {
    auditRecordsWritten(count, { sequence, mac }) {
      metrics.auditRecords.inc({}, count);
      // In one turn of the event loop, so that a scrape has both of the same record.
      metrics.auditSequence.set({}, sequence);
      metrics.auditHead.set({}, Number.parseInt(mac.slice(0, headDigits), 16));
    },
    auditRecordsLost: (count) => metrics.auditLost.inc({}, count),
    auditRecordsOmitted: (count) => metrics.auditOmitted.inc({}, count),
    auditUp: (up) => metrics.auditUp.set({}, up ? 1 : 0),
  } satisfies Partial<MetricsObserver>;
}
