type Labels<Name extends string> = Record<Name, string>;

interface CounterOf<Name extends string> {
  inc(labels: Labels<Name>, value?: number): void;
  remove(labels: Labels<Name>): void;
  reset(): void;
}

export interface GaugeOf<Name extends string> extends CounterOf<Name> {
  set(labels: Labels<Name>, value: number): void;
}

type Exemplar = { trace_id?: string };

interface HistogramOf<Name extends string> {
  observe(sample: { labels: Labels<Name>; value: number; exemplarLabels?: Exemplar }): void;
  /** Makes the series, with nothing in it. */
  zero(labels: Labels<Name>): void;
}

/** Creates metrics; adds the prefix `countersign_` to their names. Bucket bounds are in seconds. */
export interface MetricFactory {
  readonly counter: <Name extends string = never>(
    name: string,
    help: string,
    labels?: Name[],
  ) => CounterOf<Name>;
  readonly gauge: <Name extends string = never>(name: string, help: string, labels?: Name[]) => GaugeOf<Name>;
  readonly histogram: <Name extends string>(
    name: string,
    help: string,
    labels: Name[],
    buckets: number[],
  ) => HistogramOf<Name>;
}

export type Metrics = ReturnType<typeof createMetrics>;

/** All metrics of Countersign: name, help, labels, buckets. */
export function createMetrics(make: MetricFactory) {
  return {
    ...requestMetrics(make),
    ...gatewayMetrics(make),
    ...keyMetrics(make),
    ...keySourceMetrics(make),
    ...optionalMetrics(make),
    ...processMetrics(make),
  };
}

/** From 1 ms to the request timeout: 30 s by default, up to 60 s for slow gateways. */
const requestBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60,
];
const signingBuckets = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
const keyFetchBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const route: ('environment' | 'operation')[] = ['environment', 'operation'];
const certificate: ('certificate' | 'environment')[] = ['certificate', 'environment'];
const tlsLabels: ('role' | 'environment')[] = ['role', 'environment'];
const boundedKey: ('environment' | 'login' | 'kind')[] = ['environment', 'login', 'kind'];

function requestMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    requests: counter('requests_total', 'Requests.', [...route, 'caller', 'status', 'reason']),
    outcomes: counter(
      'request_outcomes_total',
      'Requests by outcome at the gateway, and whose fault it is.',
      [...route, 'outcome', 'fault'],
    ),
    requestDuration: histogram(
      'request_duration_seconds',
      'From headers received to response sent.',
      route,
      requestBuckets,
    ),
    dropped: counter(
      'connections_dropped_total',
      'Client connections closed because proxy.maxConnections was reached.',
    ),
    inFlight: gauge('requests_in_flight', 'Requests in flight.', ['environment']),
    inFlightLimit: gauge('requests_in_flight_limit', 'Limit of requests in flight.', ['environment']),
    callbacks: counter('callbacks_total', 'Callbacks of the gateway, by result of their verification.', [
      'environment',
      'result',
    ]),
    decisions: counter('authorization_decisions_total', 'Authorization decisions. would-deny: in dry-run.', [
      'caller',
      'decision',
    ]),
  };
}

function gatewayMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    gatewayResponses: counter('gateway_responses_total', 'Gateway responses, including retries.', [
      ...route,
      'status',
    ]),
    gatewayDuration: histogram(
      'gateway_request_duration_seconds',
      'Duration of one attempt at the gateway.',
      route,
      requestBuckets,
    ),
    unreachable: counter(
      'gateway_connection_failures_total',
      'Failed connections to the gateway, also those of the egress proxy.',
      [...route, 'cause'],
    ),
    results: counter(
      'gateway_results_total',
      'Form-encoded gateway responses by status field. coded: not read, since it has a Content-Encoding.',
      [...route, 'result'],
    ),
    rejections: counter(
      'gateway_rejections_total',
      'Requests that the gateway rejected with 401 or 403, by likely cause.',
      [...route, 'cause'],
    ),
    orderMismatches: counter('order_mismatches_total', 'Responses about another order, by what differs.', [
      ...route,
      'field',
    ]),
    loginRequests: counter(
      'login_requests_total',
      'Requests of a login. rejected: 401 or 403 of the gateway; no-key: it has no usable key.',
      ['environment', 'login', 'result'],
    ),
    paymentServerErrors: counter(
      'payment_server_errors_total',
      'Gateway 5xx to operations that are not read-only. They may have been processed.',
      route,
    ),
    clockSkew: gauge('gateway_clock_skew_seconds', 'Gateway clock minus local clock, at least.', [
      'environment',
    ]),
  };
}

function keyMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    cacheLookups: counter('key_cache_lookups_total', 'Key lookups by cache result.', [
      'environment',
      'result',
    ]),
    keyProblems: counter(
      'key_problems_total',
      'Failed reads of keys, and failed logins to the key source (environment none).',
      ['environment'],
    ),
    keyFetch: histogram(
      'key_fetch_duration_seconds',
      'Duration of a key source read.',
      ['source'],
      keyFetchBuckets,
    ),
    transitSigning: histogram(
      'transit_signature_duration_seconds',
      'Duration of a signature in Vault, without the wait for its turn.',
      ['environment', 'result'],
      keyFetchBuckets,
    ),
    keyVersion: gauge('key_version', 'Latest usable key version.', boundedKey),
    keySigningVersion: gauge(
      'key_signing_version',
      'Key version that signs. Lower than key_version while that waits for the gateway.',
      boundedKey,
    ),
    keyAcceptedVersion: gauge(
      'key_accepted_version',
      'Key version that the gateway accepted last. Absent until then.',
      boundedKey,
    ),
    keyCreated: gauge(
      'key_created_timestamp_seconds',
      'Creation of the latest usable key version.',
      boundedKey,
    ),
    keyUnusable: gauge(
      'key_unusable_versions',
      'Current key versions that cannot be used, or lack a key that an older one has.',
      boundedKey,
    ),
    fallbacks: counter(
      'key_fallbacks_total',
      'The gateway rejected the current key and accepted another one, which signs from then on.',
      [...boundedKey, 'to'],
    ),
  };
}

function keySourceMetrics({ gauge }: MetricFactory) {
  return {
    loginsNotFound: gauge(
      'key_logins_not_found',
      'Logins with cached keys that the key source does not know.',
    ),
    keySourceUp: gauge(
      'key_source_up',
      '1 if the key source responds, also if it denies reading keys. Absent before the first read.',
    ),
    deniedLogins: gauge(
      'key_source_denied_logins',
      'Logins in use whose keys the key source denies reading.',
    ),
    cachedKeysLeft: gauge(
      'cached_keys_remaining_seconds',
      'Seconds until the first cached keys run out. Absent if all can be read again.',
    ),
    tokenExpiry: gauge(
      'vault_token_expiry_timestamp_seconds',
      'Expiry of the Vault token. Absent if it does not expire.',
    ),
    tokenLease: gauge(
      'vault_token_lease_seconds',
      'Lease duration of the Vault token. Absent if it does not expire.',
    ),
  };
}

function processMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    signing: histogram(
      'signing_duration_seconds',
      'Signing duration with the queue, without signatures in Vault.',
      ['method'],
      signingBuckets,
    ),
    signingQueue: gauge('signing_queue_depth', 'Queued RSA signatures.'),
    logSuppressed: counter(
      'log_lines_suppressed_total',
      'Requests without a log line, because of the limit before authentication.',
    ),
    logLinesDropped: counter('log_lines_dropped_total', 'Log lines that could not be written.'),
    spans: counter('spans_total', 'Finished spans. dropped: not delivered; rejected: by the receiver.', [
      'result',
    ]),
    certificateExpiry: gauge(
      'certificate_expiry_timestamp_seconds',
      'Expiry of a certificate in use. Of a CA file, the latest.',
      certificate,
    ),
    certificateStart: gauge(
      'certificate_not_before_timestamp_seconds',
      'Start of the validity of a certificate in use.',
      certificate,
    ),
    tlsConnections: counter('tls_connections_total', 'Established TLS connections.', [
      ...tlsLabels,
      'version',
      'cipher',
    ]),
    tlsFailures: counter('tls_handshake_failures_total', 'Failed TLS handshakes.', [...tlsLabels, 'problem']),
    configReloaded: gauge(
      'config_last_reload_successful',
      '1 if the last reload took full effect. 0 also if a field needs a restart.',
    ),
    buildInfo: gauge('build_info', 'Build information. Always 1.', ['version', 'node_version']),
  };
}

/** Of what an installation may do without. */
function optionalMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    jwtVerifications: counter(
      'jwt_verifications_total',
      'JSON Web Tokens of callers. issuer none: not configured.',
      ['issuer', 'result'],
    ),
    jwtKeysFetched: gauge(
      'jwt_keys_fetched_timestamp_seconds',
      'Last successful fetch of the keys of a JWT issuer. 0 before the first one.',
      ['issuer'],
    ),
    auditLost: counter('audit_records_lost_total', 'Audit records lost.'),
    auditOmitted: counter(
      'audit_records_omitted_total',
      'Rejected requests and verified callbacks without an audit record, because of the limit of their caller.',
    ),
    auditUp: gauge(
      'audit_up',
      '1 if the last write of audit records succeeded. Absent without an audit trail.',
    ),
    auditSequence: gauge(
      'audit_sequence',
      'Sequence number of the newest audit record. Absent before the first one.',
    ),
    auditHead: gauge('audit_head', 'First 48 bits of the MAC of the newest audit record, as a number.'),
    claimStoreUp: gauge(
      'claim_store_up',
      '1 if order IDs can be claimed; 0 if their store does not respond, or takes no more. Absent without payments.once.',
    ),
    claimDuration: histogram(
      'claim_duration_seconds',
      'Duration of a claim of an order ID.',
      ['environment'],
      keyFetchBuckets,
    ),
  };
}
