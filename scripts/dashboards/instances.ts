import {
  aggregate,
  inEnvironment,
  inRelease,
  max,
  medianAndP99,
  min,
  perSecond,
  type Section,
} from './model.ts';

/** Matchers for the default metrics of a Node process. */
const ofProcess = `job="countersign", ${inRelease}`;

const certificate = (what: 'expiry' | 'not_before') =>
  `countersign_certificate_${what}_timestamp_seconds{${inRelease}, environment=~"$environment|none"}`;

/** The processes: load, signing, resources, versions, configuration. */
export const instances: Section = {
  title: 'Instances',
  panels: [
    {
      title: 'In-flight requests (% of limit)',
      description:
        'In-flight requests as a share of the limit. At 100 % requests are rejected as overloaded.',
      unit: 'percentunit',
      redFrom: 0.8,
      runbook: 'CountersignSaturated',
      queries: {
        '{{environment}} {{instance}}': aggregate(
          'max',
          'environment, instance',
          `countersign_requests_in_flight{${inEnvironment}} / countersign_requests_in_flight_limit{${inEnvironment}}`,
        ),
      },
    },
    {
      title: 'Signatures',
      description: 'Signatures per second, by method.',
      unit: 'ops',
      queries: { '{{method}}': perSecond('signatures_total', inRelease, 'method') },
    },
    {
      title: 'Signing queue',
      description: 'RSA signatures waiting for a free thread. Above 0 for long means too little CPU.',
      unit: 'short',
      runbook: 'CountersignLatencyBudgetBurnFast',
      queries: {
        '{{instance}}': aggregate('sum', 'instance', `countersign_signing_queue_depth{${inRelease}}`),
      },
    },
    {
      title: 'Signing duration',
      description:
        'Duration of one signature, including queueing. RSA with 4096 bits takes some milliseconds.',
      unit: 's',
      redFrom: 0.1,
      runbook: 'CountersignLatencyBudgetBurnFast',
      queries: medianAndP99('signing_duration_seconds', inRelease, 'method'),
    },
    {
      title: 'CPU and event loop',
      description: 'CPU seconds per second, and the p99 event loop delay in seconds.',
      unit: 's',
      queries: {
        'CPU {{instance}}': aggregate(
          'sum',
          'instance',
          `rate(process_cpu_seconds_total{${ofProcess}}[$__rate_interval])`,
        ),
        'event loop {{instance}}': aggregate(
          'max',
          'instance',
          `nodejs_eventloop_lag_p99_seconds{${ofProcess}}`,
        ),
      },
    },
    {
      title: 'Memory',
      description: 'Resident memory of each process. Growth over days is a leak.',
      unit: 'bytes',
      queries: {
        '{{instance}}': aggregate('sum', 'instance', `process_resident_memory_bytes{${ofProcess}}`),
      },
    },
    {
      title: 'Versions',
      description: 'Instances by version. Two versions for more than an hour: a stuck rollout.',
      unit: 'short',
      runbook: 'CountersignVersionSkew',
      queries: { '{{version}}': aggregate('count', 'version', `countersign_build_info{${inRelease}}`) },
    },
    {
      title: 'Connections rejected',
      description: 'Client connections rejected because proxy.maxConnections was reached.',
      unit: 'ops',
      runbook: 'CountersignSaturated',
      queries: { '{{instance}}': perSecond('connections_dropped_total', inRelease, 'instance') },
    },
    {
      title: 'Log lines not written',
      description:
        'dropped: the line could not be written. suppressed: above the rate limit for requests rejected before authentication.',
      unit: 'ops',
      runbook: 'CountersignLogLinesDropped',
      queries: {
        'dropped {{instance}}': perSecond('log_lines_dropped_total', inRelease, 'instance'),
        'suppressed {{instance}}': perSecond('log_lines_suppressed_total', inRelease, 'instance'),
      },
    },
    {
      title: 'Spans of traces',
      description:
        'exported, dropped because the receiver did not get them, rejected by it. Zero unless tracing is configured.',
      unit: 'ops',
      runbook: 'CountersignSpansDropped',
      queries: { '{{result}}': perSecond('spans_total', inRelease, 'result') },
    },
    {
      title: 'Audit records',
      description:
        'written, lost because they could not be written, omitted above the rate limit for requests rejected before authentication. Zero without an audit trail.',
      unit: 'ops',
      runbook: 'CountersignAuditRecordsLost',
      queries: {
        'written {{instance}}': perSecond('audit_records_total', inRelease, 'instance'),
        'lost {{instance}}': perSecond('audit_records_lost_total', inRelease, 'instance'),
        'omitted {{instance}}': perSecond('audit_records_omitted_total', inRelease, 'instance'),
      },
    },
    {
      title: 'Audit trail writable',
      description: '1 if the last write of audit records succeeded. Empty without an audit trail.',
      unit: 'short',
      redBelow: 1,
      runbook: 'CountersignAuditUnavailable',
      queries: { '{{instance}}': min('audit_up', inRelease, 'instance') },
    },
    {
      title: 'Audit trail head',
      description:
        'Sequence number of the newest audit record, and the first 48 bits of its MAC as a number, for audit verify --head. It begins again with each start. The MAC rises and falls with each record.',
      kind: 'stat',
      unit: 'none',
      runbook: 'CountersignAuditUnavailable',
      queries: {
        'sequence {{instance}}': max('audit_sequence', inRelease, 'instance'),
        'MAC {{instance}}': max('audit_head', inRelease, 'instance'),
      },
    },
    {
      title: 'Certificate lifetime left',
      description:
        'Share of its lifetime that each certificate in use has left. Renewal is due at 20 %, at the latest 7 days before expiry. environment=none: not specific to one. Empty without certificate files.',
      unit: 'percentunit',
      runbook: 'CountersignCertificateExpiring',
      queries: {
        '{{certificate}} {{environment}}': aggregate(
          'min',
          'certificate, environment',
          `(${certificate('expiry')} - time()) / (${certificate('expiry')} - ${certificate('not_before')})`,
        ),
      },
    },
    {
      title: 'Configuration in effect',
      description: '1 if the last configuration reload took full effect.',
      unit: 'short',
      redBelow: 1,
      runbook: 'CountersignConfigReloadFailed',
      queries: { '{{instance}}': min('config_last_reload_successful', inRelease, 'instance') },
    },
    {
      title: 'Configuration age',
      description:
        'Time since a configuration last took full effect. Instances differ after a failed reload.',
      unit: 's',
      runbook: 'CountersignConfigReloadFailed',
      queries: {
        '{{instance}}': `time() - ${max('config_last_reload_success_timestamp_seconds', inRelease, 'instance')}`,
      },
    },
  ],
};
