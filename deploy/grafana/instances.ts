import { inEnvironment, medianAndWorst, perSecond, type Section } from './model.ts';

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
          expr: `max by (environment, instance) (countersign_requests_in_flight{${inEnvironment}} / countersign_in_flight_limit{${inEnvironment}})`,
          legend: '{{environment}} {{instance}}',
        },
      ],
    },
    {
      title: 'Signatures',
      description: 'Signatures made, a second, by method.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [{ expr: perSecond('signatures_total', '', 'method'), legend: '{{method}}' }],
    },
    {
      title: 'Signatures waiting',
      description: 'RSA signatures that wait for a free thread. For long above 0: too little CPU.',
      kind: 'timeseries',
      unit: 'short',
      runbook: 'CountersignLatencyBurnFast',
      queries: [{ expr: 'sum by (instance) (countersign_signing_queue_depth)', legend: '{{instance}}' }],
    },
    {
      title: 'Signing duration',
      description: 'Making one signature, waiting included. RSA with 4096 bits takes some milliseconds.',
      kind: 'timeseries',
      unit: 's',
      redFrom: 0.1,
      runbook: 'CountersignLatencyBurnFast',
      queries: medianAndWorst('signing_duration_seconds', '', 'method'),
    },
    {
      title: 'CPU and event loop',
      description: 'CPU seconds a second, and the worst 1 % of delays of the event loop in seconds.',
      kind: 'timeseries',
      unit: 's',
      queries: [
        {
          expr: 'sum by (instance) (rate(process_cpu_seconds_total{job="countersign"}[$__rate_interval]))',
          legend: 'CPU {{instance}}',
        },
        {
          expr: 'max by (instance) (nodejs_eventloop_lag_p99_seconds{job="countersign"})',
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
          expr: 'sum by (instance) (process_resident_memory_bytes{job="countersign"})',
          legend: '{{instance}}',
        },
      ],
    },
    {
      title: 'Versions',
      description: 'Instances by version. Two versions for long: a rollout that hangs.',
      kind: 'timeseries',
      unit: 'short',
      runbook: 'CountersignVersionsDiffer',
      queries: [{ expr: 'count by (version) (countersign_build_info)', legend: '{{version}}' }],
    },
  ],
};
