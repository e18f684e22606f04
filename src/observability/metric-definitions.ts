type Labels<Name extends string> = Record<Name, string>;

export interface CounterOf<Name extends string> {
  inc(labels: Labels<Name>, value?: number): void;
  remove(labels: Labels<Name>): void;
}

export interface GaugeOf<Name extends string> extends CounterOf<Name> {
  dec(labels: Labels<Name>): void;
  set(labels: Labels<Name>, value: number): void;
}

type Exemplar = { trace_id?: string };

export interface HistogramOf<Name extends string> {
  observe(seen: { labels: Labels<Name>; value: number; exemplarLabels?: Exemplar }): void;
}

/** Makes a metric; puts `countersign_` in front of its name. Bucket bounds are in seconds. */
export interface MetricFactory {
  readonly counter: <Name extends string>(name: string, help: string, labels: Name[]) => CounterOf<Name>;
  readonly gauge: <Name extends string>(name: string, help: string, labels: Name[]) => GaugeOf<Name>;
  readonly histogram: <Name extends string>(
    name: string,
    help: string,
    labels: Name[],
    buckets: number[],
  ) => HistogramOf<Name>;
}

export type Metrics = ReturnType<typeof createMetrics>;

/** Every metric of Countersign's own: name, help, labels, buckets. */
export function createMetrics(make: MetricFactory) {
  return {
    ...requestMetrics(make),
    ...gatewayMetrics(make),
    ...keyMetrics(make),
    ...keySourceMetrics(make),
    ...processMetrics(make),
  };
}

/** From 1 ms to the gateway's deadline: 30 s by default, up to 60 s where it is slow. */
const requestBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60,
];
const signingBuckets = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
const keyFetchBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const route: ('environment' | 'operation')[] = ['environment', 'operation'];
const certificate: ('certificate' | 'environment')[] = ['certificate', 'environment'];
const boundedKey: ('environment' | 'login' | 'kind')[] = ['environment', 'login', 'kind'];

const unknownRoute =
  'environment and operation are none where the request was rejected before its route was known.';
const sharedCertificate = 'environment is none for certificates that are not specific to an environment.';

function requestMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    requests: counter(
      'requests_total',
      `Exchanges that ended. reason: why Countersign answered itself, none where the gateway answered. ${unknownRoute} caller is none where it was not authenticated.`,
      [...route, 'caller', 'status', 'reason'],
    ),
    outcomes: counter(
      'request_outcomes_total',
      `Exchanges by what became of them at the gateway, and by who has to act where they failed. ${unknownRoute}`,
      [...route, 'outcome', 'fault'],
    ),
    requestDuration: histogram(
      'request_duration_seconds',
      `From the head of a request to the end of its answer. ${unknownRoute}`,
      route,
      requestBuckets,
    ),
    dropped: counter(
      'connections_dropped_total',
      'Connections of callers that were closed at once, since proxy.maxConnections were open.',
      [],
    ),
    inFlight: gauge('requests_in_flight', 'Exchanges under way.', ['environment']),
    inFlightLimit: gauge('requests_in_flight_limit', 'Exchanges that may be under way at once.', [
      'environment',
    ]),
    decisions: counter('authorization_decisions_total', 'Decisions on callers; would-deny is report mode.', [
      'caller',
      'decision',
    ]),
  };
}

function gatewayMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    replies: counter('gateway_responses_total', 'Replies of the gateway, retries counted one by one.', [
      ...route,
      'status',
    ]),
    gatewayDuration: histogram(
      'gateway_request_duration_seconds',
      'One request to the gateway and its reply, retries counted one by one.',
      route,
      requestBuckets,
    ),
    unreachable: counter(
      'gateway_connection_failures_total',
      'Total connections to the gateway that could not be made, by cause: DNS, refused, timeout, TLS, other.',
      [...route, 'cause'],
    ),
    results: counter('gateway_results_total', 'Form-encoded replies of the gateway by their status field.', [
      ...route,
      'result',
    ]),
    errorCodes: counter(
      'gateway_error_codes_total',
      'Form-encoded replies of the gateway that carry an error code. 124: ambiguous client_orderid.',
      [...route, 'code'],
    ),
    rejections: counter(
      'gateway_rejections_total',
      'Exchanges in which the gateway answered 403, by what it most likely objected to.',
      [...route, 'cause'],
    ),
    paymentServerErrors: counter(
      'payment_server_errors_total',
      'Gateway 5xx responses to operations that are not read-only; the payment may have been carried out.',
      route,
    ),
    clockSkew: gauge('gateway_clock_skew_seconds', 'Clock of the gateway minus our own, last seen.', [
      'environment',
    ]),
  };
}

function keyMetrics({ counter, gauge, histogram }: MetricFactory) {
  const bounded = 'At most 1000 logins are shown.';
  return {
    keysTaken: counter('key_cache_lookups_total', 'Keys asked for, by how they were had.', [
      'environment',
      'result',
    ]),
    keyProblems: counter(
      'key_problems_total',
      'Keys that could not be read, and logins to the key source that failed (environment none: it affects all); the log says why.',
      ['environment'],
    ),
    keyFetch: histogram(
      'key_fetch_duration_seconds',
      'One read of the key source.',
      ['source'],
      keyFetchBuckets,
    ),
    keyVersion: gauge('key_version', `Newest usable version of a key in use. ${bounded}`, boundedKey),
    keySigningVersion: gauge(
      'key_signing_version',
      `Version that signs; lower than key_version while the gateway refuses the newest. ${bounded}`,
      boundedKey,
    ),
    keyCreated: gauge(
      'key_created_timestamp_seconds',
      `When the newest usable version of a key in use was made. ${bounded}`,
      boundedKey,
    ),
    keyUnusable: gauge(
      'key_unusable_versions',
      `Number of current key versions that cannot be parsed or are too weak. ${bounded}`,
      boundedKey,
    ),
    fallbacks: counter(
      'key_fallbacks_total',
      `Exchanges refused with one version of a key and accepted with another. ${bounded}`,
      [...boundedKey, 'to'],
    ),
    canaries: counter(
      'key_canaries_total',
      'Read-only queries sent ahead of payments during a key rotation, by result.',
      ['environment', 'result'],
    ),
  };
}

function keySourceMetrics({ gauge }: MetricFactory) {
  return {
    keySourceUp: gauge(
      'key_source_up',
      'Whether the key source answered when last asked; absent before.',
      [],
    ),
    tokenExpiry: gauge(
      'vault_token_expiry_timestamp_seconds',
      'When the credential for the key source runs out; absent where it never does.',
      [],
    ),
    tokenLease: gauge(
      'vault_token_lease_seconds',
      'Lease duration of the credential for the key source; absent where it never expires.',
      [],
    ),
  };
}

function processMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    signatures: counter('signatures_total', 'Requests signed.', ['method']),
    signing: histogram(
      'signing_duration_seconds',
      'Making one signature, waiting included.',
      ['method'],
      signingBuckets,
    ),
    signingQueue: gauge('signing_queue_depth', 'RSA signatures that wait for a free thread.', []),
    logSuppressed: counter(
      'log_lines_suppressed_total',
      'Requests without a log line: rejected before their caller was known, above the rate that is logged.',
      [],
    ),
    logLinesDropped: counter(
      'log_lines_dropped_total',
      'Number of log lines dropped because they could not be written.',
      [],
    ),
    certificateExpiry: gauge(
      'certificate_expiry_timestamp_seconds',
      `Expiry time of a certificate in use, in seconds since 1970; of a CA file the latest of its certificates. ${sharedCertificate}`,
      certificate,
    ),
    certificateStart: gauge(
      'certificate_not_before_timestamp_seconds',
      `Start of the validity of a certificate in use, in seconds since 1970. ${sharedCertificate}`,
      certificate,
    ),
    configReloaded: gauge(
      'config_last_reload_successful',
      'Whether the last configuration reload took effect as a whole; 0 also if a field needs a restart.',
      [],
    ),
    configReloadedAt: gauge(
      'config_last_reload_success_timestamp_seconds',
      'Time of the last configuration load that took effect as a whole, in seconds since 1970.',
      [],
    ),
    buildInfo: gauge('build_info', 'Always 1; the versions are in the labels.', ['version', 'node_version']),
  };
}
