import { aggregate, inEnvironment, inRelease, medianAndWorst, perSecond, type Section } from './model.ts';

/** Metrics that every Node process has. */
const ofProcess = `job="countersign", ${inRelease}`;

const certificate = (what: 'expiry' | 'not_before') =>
  `countersign_certificate_${what}_timestamp_seconds{${inRelease}, environment=~"$environment|none"}`;

/** What the processes themselves are doing, whatever the requests. */
export const instances: Section = {
  title: 'Instances',
  panels: [
    {
      title: 'Under way',
      description:
        'Exchanges under way as a share of how many may be. At 100 % callers are answered overloaded.',
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
      description: 'Signatures made, a second, by method.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [{ expr: perSecond('signatures_total', inRelease, 'method'), legend: '{{method}}' }],
    },
    {
      title: 'Signatures waiting',
      description: 'RSA signatures that wait for a free thread. For long above 0: too little CPU.',
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
      description: 'Making one signature, waiting included. RSA with 4096 bits takes some milliseconds.',
      kind: 'timeseries',
      unit: 's',
      redFrom: 0.1,
      runbook: 'CountersignLatencyBudgetBurnFast',
      queries: medianAndWorst('signing_duration_seconds', inRelease, 'method'),
    },
    {
      title: 'CPU and event loop',
      description: 'CPU seconds a second, and the worst 1 % of delays of the event loop in seconds.',
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
      description: 'Resident memory of each process. Growth that goes on for days is a leak.',
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
      description: 'Instances by version. Two versions for long: a rollout that hangs.',
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
      description: 'Client connections closed at once because proxy.maxConnections were open.',
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
        'dropped: the line could not be written. suppressed: requests rejected before their caller was known, above the rate that is logged.',
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
      title: 'Certificate lifetime left',
      description:
        'Share of its lifetime that each certificate in use has left. Renewal is due at 20 %, or 7 days before the end of a long one. Environment none: not specific to one. Empty without certificate files.',
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
      description: '1 where the last reload of the configuration took effect as a whole.',
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
      title: 'Age of the configuration',
      description:
        'Time since a configuration last took effect as a whole. Instances differ after a failed reload.',
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
