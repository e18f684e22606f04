import { aggregate, inEnvironment, inRelease, medianAndP99, perSecond, type Section } from './model.ts';

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
      kind: 'timeseries',
      unit: 'percentunit',
      redFrom: 0.8,
      runbook: 'CountersignSaturated',
      queries: [
        {
          expr: aggregate(
            'max',
            'environment, instance',
            `countersign_requests_in_flight{${inEnvironment}} / countersign_requests_in_flight_limit{${inEnvironment}}`,
          ),
          legend: '{{environment}} {{instance}}',
        },
      ],
    },
    {
      title: 'Signatures',
      description: 'Signatures per second, by method.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [{ expr: perSecond('signatures_total', inRelease, 'method'), legend: '{{method}}' }],
    },
    {
      title: 'Signing queue',
      description: 'RSA signatures waiting for a free thread. Above 0 for long means too little CPU.',
      kind: 'timeseries',
      unit: 'short',
      runbook: 'CountersignLatencyBudgetBurnFast',
      queries: [
        {
          expr: aggregate('sum', 'instance', `countersign_signing_queue_depth{${inRelease}}`),
          legend: '{{instance}}',
        },
      ],
    },
    {
      title: 'Signing duration',
      description:
        'Duration of one signature, including queueing. RSA with 4096 bits takes some milliseconds.',
      kind: 'timeseries',
      unit: 's',
      redFrom: 0.1,
      runbook: 'CountersignLatencyBudgetBurnFast',
      queries: medianAndP99('signing_duration_seconds', inRelease, 'method'),
    },
    {
      title: 'CPU and event loop',
      description: 'CPU seconds per second, and the p99 event loop delay in seconds.',
      kind: 'timeseries',
      unit: 's',
      queries: [
        {
          expr: aggregate(
            'sum',
            'instance',
            `rate(process_cpu_seconds_total{${ofProcess}}[$__rate_interval])`,
          ),
          legend: 'CPU {{instance}}',
        },
        {
          expr: aggregate('max', 'instance', `nodejs_eventloop_lag_p99_seconds{${ofProcess}}`),
          legend: 'event loop {{instance}}',
        },
      ],
    },
    {
      title: 'Memory',
      description: 'Resident memory of each process. Growth over days is a leak.',
      kind: 'timeseries',
      unit: 'bytes',
      queries: [
        {
          expr: aggregate('sum', 'instance', `process_resident_memory_bytes{${ofProcess}}`),
          legend: '{{instance}}',
        },
      ],
    },
    {
      title: 'Versions',
      description: 'Instances by version. Two versions for more than an hour: a stuck rollout.',
      kind: 'timeseries',
      unit: 'short',
      runbook: 'CountersignVersionSkew',
      queries: [
        {
          expr: aggregate('count', 'version', `countersign_build_info{${inRelease}}`),
          legend: '{{version}}',
        },
      ],
    },
    {
      title: 'Connections rejected',
      description: 'Client connections rejected because proxy.maxConnections was reached.',
      kind: 'timeseries',
      unit: 'ops',
      runbook: 'CountersignSaturated',
      queries: [
        { expr: perSecond('connections_dropped_total', inRelease, 'instance'), legend: '{{instance}}' },
      ],
    },
    {
      title: 'Log lines not written',
      description:
        'dropped: the line could not be written. suppressed: above the rate limit for requests rejected before authentication.',
      kind: 'timeseries',
      unit: 'ops',
      runbook: 'CountersignLogLinesDropped',
      queries: [
        { expr: perSecond('log_lines_dropped_total', inRelease, 'instance'), legend: 'dropped {{instance}}' },
        {
          expr: perSecond('log_lines_suppressed_total', inRelease, 'instance'),
          legend: 'suppressed {{instance}}',
        },
      ],
    },
    {
      title: 'Spans of traces',
      description:
        'exported, dropped because the receiver did not get them, rejected by it. Zero unless tracing is configured.',
      kind: 'timeseries',
      unit: 'ops',
      runbook: 'CountersignSpansDropped',
      queries: [{ expr: perSecond('spans_total', inRelease, 'result'), legend: '{{result}}' }],
    },
    {
      title: 'Audit records',
      description:
        'written, lost because they could not be written, omitted above the rate limit for requests rejected before authentication. Zero without an audit trail.',
      kind: 'timeseries',
      unit: 'ops',
      runbook: 'CountersignAuditRecordsLost',
      queries: [
        { expr: perSecond('audit_records_total', inRelease, 'instance'), legend: 'written {{instance}}' },
        { expr: perSecond('audit_records_lost_total', inRelease, 'instance'), legend: 'lost {{instance}}' },
        {
          expr: perSecond('audit_records_omitted_total', inRelease, 'instance'),
          legend: 'omitted {{instance}}',
        },
      ],
    },
    {
      title: 'Audit trail writable',
      description: '1 if the last write of audit records succeeded. Empty without an audit trail.',
      kind: 'timeseries',
      unit: 'short',
      redBelow: 1,
      runbook: 'CountersignAuditUnavailable',
      queries: [
        { expr: aggregate('min', 'instance', `countersign_audit_up{${inRelease}}`), legend: '{{instance}}' },
      ],
    },
    {
      title: 'Audit trail head',
      description:
        'Sequence number of the newest audit record, and the first 48 bits of its MAC as a number, for audit verify --head. A sequence number that falls: another file, or a file that was cut off. The MAC rises and falls with each record.',
      kind: 'stat',
      unit: 'none',
      runbook: 'CountersignAuditUnavailable',
      queries: [
        {
          expr: aggregate('max', 'instance', `countersign_audit_sequence{${inRelease}}`),
          legend: 'sequence {{instance}}',
        },
        {
          expr: aggregate('max', 'instance', `countersign_audit_head{${inRelease}}`),
          legend: 'MAC {{instance}}',
        },
      ],
    },
    {
      title: 'Certificate lifetime left',
      description:
        'Share of its lifetime that each certificate in use has left. Renewal is due at 20 %, at the latest 7 days before expiry. environment=none: not specific to one. Empty without certificate files.',
      kind: 'timeseries',
      unit: 'percentunit',
      runbook: 'CountersignCertificateExpiring',
      queries: [
        {
          expr: aggregate(
            'min',
            'certificate, environment',
            `(${certificate('expiry')} - time()) / (${certificate('expiry')} - ${certificate('not_before')})`,
          ),
          legend: '{{certificate}} {{environment}}',
        },
      ],
    },
    {
      title: 'Configuration in effect',
      description: '1 if the last configuration reload took full effect.',
      kind: 'timeseries',
      unit: 'short',
      redBelow: 1,
      runbook: 'CountersignConfigReloadFailed',
      queries: [
        {
          expr: aggregate('min', 'instance', `countersign_config_last_reload_successful{${inRelease}}`),
          legend: '{{instance}}',
        },
      ],
    },
    {
      title: 'Configuration age',
      description:
        'Time since a configuration last took full effect. Instances differ after a failed reload.',
      kind: 'timeseries',
      unit: 's',
      runbook: 'CountersignConfigReloadFailed',
      queries: [
        {
          expr: `time() - ${aggregate('max', 'instance', `countersign_config_last_reload_success_timestamp_seconds{${inRelease}}`)}`,
          legend: '{{instance}}',
        },
      ],
    },
  ],
};
