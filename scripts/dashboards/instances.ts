import {
  aggregate,
  inEnvironment,
  inRelease,
  max,
  medianAndP99,
  min,
  perSecond,
  quantile,
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
      purpose:
        'Incident: requests are rejected as overloaded. Decision: more instances, or a higher maxInFlight?',
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
      title: 'Signing duration',
      purpose: 'Incident: slow, and not the gateway. Decision: more CPU?',
      description:
        'Duration of one signature, including queueing. RSA with 4096 bits takes some milliseconds. And of a claim of an order ID (payments.once).',
      unit: 's',
      redFrom: 0.1,
      runbook: 'CountersignLatencyBudgetBurn',
      queries: {
        ...medianAndP99('signing_duration_seconds', inRelease, 'method'),
        'p99 claim {{environment}}': quantile(0.99, 'claim_duration_seconds', inEnvironment, 'environment'),
      },
    },
    {
      title: 'CPU and event loop',
      purpose: 'Decision: more instances?',
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
      purpose: 'Incident: an instance was killed for its memory. Decision: a higher limit?',
      description: 'Resident memory of each process. Growth over days is a leak.',
      unit: 'bytes',
      queries: {
        '{{instance}}': aggregate('sum', 'instance', `process_resident_memory_bytes{${ofProcess}}`),
      },
    },
    {
      title: 'Versions',
      purpose: 'Incident: a rollout is stuck.',
      description: 'Instances by version. Two versions for more than an hour: a stuck rollout.',
      unit: 'short',
      runbook: 'CountersignDown',
      queries: { '{{version}}': aggregate('count', 'version', `countersign_build_info{${inRelease}}`) },
    },
    {
      title: 'Connections rejected',
      purpose: 'Incident: clients cannot connect.',
      description: 'Client connections rejected because proxy.maxConnections was reached.',
      unit: 'ops',
      runbook: 'CountersignSaturated',
      queries: { '{{instance}}': perSecond('connections_dropped_total', inRelease, 'instance') },
    },
    {
      title: 'Log lines not written',
      purpose: 'Incident: lines that an investigation would need are missing.',
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
      title: 'Audit records lost',
      purpose: 'Incident: the audit trail has gaps.',
      description: 'Records per second that could not be written. Zero without an audit trail.',
      unit: 'ops',
      runbook: 'CountersignAuditUnavailable',
      queries: {
        '{{instance}}': perSecond('audit_records_lost_total', inRelease, 'instance'),
      },
    },
    {
      title: 'Audit trail and claims',
      purpose: 'Incident: payments are rejected until records can be written, and order IDs claimed.',
      description:
        '1 if the last write of audit records succeeded, and if the store of claimed order IDs responds. Empty without an audit trail, and without payments.once.',
      unit: 'short',
      redBelow: 1,
      runbook: 'CountersignAuditUnavailable',
      queries: {
        'audit {{instance}}': min('audit_up', inRelease, 'instance'),
        'claims {{instance}}': min('claim_store_up', inRelease, 'instance'),
      },
    },
    {
      title: 'Certificate lifetime left',
      purpose: 'Decision: which certificate has to be renewed, and by when?',
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
      purpose: 'Incident: an instance did not take the new configuration.',
      description: '1 if the last configuration reload took full effect.',
      unit: 'short',
      redBelow: 1,
      runbook: 'CountersignConfigReloadFailed',
      queries: { '{{instance}}': min('config_last_reload_successful', inRelease, 'instance') },
    },
    {
      title: 'Audit trail head',
      purpose: 'Decision: is the audit trail complete?',
      description:
        'Sequence number of the newest audit record, and the first 48 bits of its MAC as a number, for audit verify --head. It begins again with each start. The MAC rises and falls with each record.',
      kind: 'table',
      unit: 'none',
      runbook: 'CountersignAuditUnavailable',
      queries: {
        sequence: max('audit_sequence', inRelease, 'instance'),
        MAC: max('audit_head', inRelease, 'instance'),
      },
    },
  ],
};
