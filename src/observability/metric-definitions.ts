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
    ...jwtMetrics(make),
    ...gatewayMetrics(make),
    ...keyMetrics(make),
    ...keySourceMetrics(make),
    ...auditMetrics(make),
    ...claimMetrics(make),
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

const unknownRoute =
  'environment and operation are none if the request was rejected before its route was known.';
const sharedCertificate = 'environment is none for certificates that are not specific to an environment.';

const tlsEnd =
  'role is our end: listener, admin, gateway, vault or jwt-issuer. environment is none except for gateway.';

function requestMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    requests: counter(
      'requests_total',
      `Total number of requests. reason is none when the gateway's response was forwarded. ${unknownRoute} caller is none if it was not authenticated.`,
      [...route, 'caller', 'status', 'reason'],
    ),
    outcomes: counter(
      'request_outcomes_total',
      `Total number of requests by outcome at the gateway and by responsible party. ${unknownRoute}`,
      [...route, 'outcome', 'fault'],
    ),
    requestDuration: histogram(
      'request_duration_seconds',
      `Request duration from headers received to response sent. ${unknownRoute}`,
      route,
      requestBuckets,
    ),
    dropped: counter(
      'connections_dropped_total',
      'Client connections closed because proxy.maxConnections was reached.',
    ),
    inFlight: gauge('requests_in_flight', 'Number of requests currently in flight.', ['environment']),
    inFlightLimit: gauge('requests_in_flight_limit', 'Maximum number of in-flight requests.', [
      'environment',
    ]),
    callbacks: counter(
      'callbacks_total',
      'Callbacks of the gateway that were verified for a service, by result.',
      ['environment', 'result'],
    ),
    decisions: counter(
      'authorization_decisions_total',
      'Authorization decisions. would-deny means denied in dry-run mode.',
      ['caller', 'decision'],
    ),
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
      'Duration of a single gateway request, per attempt.',
      route,
      requestBuckets,
    ),
    unreachable: counter(
      'gateway_connection_failures_total',
      'Failed connections to the gateway by cause: DNS, refused, timeout, TLS, other, or of the egress proxy.',
      [...route, 'cause'],
    ),
    results: counter(
      'gateway_results_total',
      'Form-encoded gateway responses by status field, and coded: with a Content-Encoding, which was not asked for, so not read.',
      [...route, 'result'],
    ),
    errorCodes: counter(
      'gateway_error_codes_total',
      'Form-encoded gateway responses by error code (124: ambiguous client_orderid).',
      [...route, 'code'],
    ),
    rejections: counter(
      'gateway_rejections_total',
      'Requests rejected by the gateway with 401 or 403, by likely cause.',
      [...route, 'cause'],
    ),
    orderMismatches: counter(
      'order_mismatches_total',
      'Total number of requests whose response was about another order, by what differs.',
      [...route, 'field'],
    ),
    loginRequests: counter(
      'login_requests_total',
      'Requests of a login: rejected by the gateway with 401 or 403, no-key if it has no usable key, or other. login is other beyond 1000 of them, for one without a key since the start, and for one that may not be written.',
      ['environment', 'login', 'result'],
    ),
    paymentServerErrors: counter(
      'payment_server_errors_total',
      'Gateway 5xx responses to operations that are not read-only. The payment may have been processed.',
      route,
    ),
    clockSkew: gauge(
      'gateway_clock_skew_seconds',
      'Gateway clock minus local clock, at least, from the last Date header and the times of sending and receiving.',
      ['environment'],
    ),
  };
}

function keyMetrics({ counter, gauge, histogram }: MetricFactory) {
  const bounded = 'Limited to 1000 logins.';
  return {
    cacheLookups: counter('key_cache_lookups_total', 'Key lookups by cache result.', [
      'environment',
      'result',
    ]),
    keyProblems: counter(
      'key_problems_total',
      'Failed key reads and failed logins to the key source. environment is none if all are affected.',
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
      'Duration of a signature in Vault (Transit), by result. Without the wait for its turn.',
      ['environment', 'result'],
      keyFetchBuckets,
    ),
    keyVersion: gauge('key_version', `Latest usable key version. ${bounded}`, boundedKey),
    keySigningVersion: gauge(
      'key_signing_version',
      `Key version used for signing. Lower than key_version while the latest waits for the gateway. ${bounded}`,
      boundedKey,
    ),
    keyAcceptedVersion: gauge(
      'key_accepted_version',
      `Key version that the gateway accepted last. Absent until then. ${bounded}`,
      boundedKey,
    ),
    keyCreated: gauge(
      'key_created_timestamp_seconds',
      `Creation time of the latest usable key version, in seconds since 1970. ${bounded}`,
      boundedKey,
    ),
    keyUnusable: gauge(
      'key_unusable_versions',
      `Number of current key versions that cannot be parsed, are too weak, or lack a key that an older one has. ${bounded}`,
      boundedKey,
    ),
    fallbacks: counter(
      'key_fallbacks_total',
      `How often the gateway rejected the current key and accepted another one, which signs from then on. ${bounded}`,
      [...boundedKey, 'to'],
    ),
  };
}

function keySourceMetrics({ gauge }: MetricFactory) {
  return {
    loginsNotFound: gauge(
      'key_logins_not_found',
      'Logins whose cached keys are used although the key source does not know the login.',
    ),
    keySourceUp: gauge(
      'key_source_up',
      '1 if the key source responds, also if it denies reading keys. Absent before the first read.',
    ),
    deniedLogins: gauge(
      'key_source_denied_logins',
      'Number of logins in use whose keys the key source denies reading.',
    ),
    cachedKeysLeft: gauge(
      'cached_keys_remaining_seconds',
      'Seconds until the first cached keys that cannot be read again are no longer used. Absent if all can be read.',
    ),
    tokenExpiry: gauge(
      'vault_token_expiry_timestamp_seconds',
      'Expiry time of the Vault token, in seconds since 1970. Absent if it does not expire.',
    ),
    tokenLease: gauge(
      'vault_token_lease_seconds',
      'Lease duration of the Vault token. Absent if it does not expire.',
    ),
  };
}

function processMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    signatures: counter('signatures_total', 'Total number of signatures, without those in Vault.', [
      'method',
    ]),
    signing: histogram(
      'signing_duration_seconds',
      'Signing duration including queueing. Without signatures in Vault.',
      ['method'],
      signingBuckets,
    ),
    signingQueue: gauge('signing_queue_depth', 'Number of queued RSA signatures.'),
    logSuppressed: counter(
      'log_lines_suppressed_total',
      'Number of requests without a log line because of the rate limit for requests rejected before authentication.',
    ),
    logLinesDropped: counter(
      'log_lines_dropped_total',
      'Number of log lines dropped because they could not be written.',
    ),
    spans: counter(
      'spans_total',
      'Total number of finished spans of traces: exported, dropped because they could not be delivered, or rejected by the receiver.',
      ['result'],
    ),
    certificateExpiry: gauge(
      'certificate_expiry_timestamp_seconds',
      `Expiry time of a certificate in use, in seconds since 1970. For a CA file, the latest of its certificates. ${sharedCertificate}`,
      certificate,
    ),
    certificateStart: gauge(
      'certificate_not_before_timestamp_seconds',
      `Start of the validity of a certificate in use, in seconds since 1970. ${sharedCertificate}`,
      certificate,
    ),
    tlsConnections: counter(
      'tls_connections_total',
      `Established TLS connections by negotiated version and cipher suite. ${tlsEnd}`,
      [...tlsLabels, 'version', 'cipher'],
    ),
    tlsFailures: counter(
      'tls_handshake_failures_total',
      `TLS handshakes that failed because of the version, the cipher suites, a certificate, or another mistake of the peer. ${tlsEnd}`,
      [...tlsLabels, 'problem'],
    ),
    configReloaded: gauge(
      'config_last_reload_successful',
      '1 if the last configuration reload took full effect. 0 also if a field needs a restart.',
    ),
    configReloadedAt: gauge(
      'config_last_reload_success_timestamp_seconds',
      'Time of the last configuration load that took full effect, in seconds since 1970.',
    ),
    buildInfo: gauge('build_info', 'Build information. Always 1.', ['version', 'node_version']),
  };
}

function jwtMetrics({ counter, gauge }: MetricFactory) {
  return {
    jwtVerifications: counter(
      'jwt_verifications_total',
      'JSON Web Tokens presented by callers, by issuer and result. issuer is none if no configured issuer made the token.',
      ['issuer', 'result'],
    ),
    jwtKeysFetched: gauge(
      'jwt_keys_fetched_timestamp_seconds',
      'Time of the last successful fetch of the public keys of a JWT issuer, in seconds since 1970. 0 before the first one.',
      ['issuer'],
    ),
  };
}

function claimMetrics({ gauge, histogram }: MetricFactory) {
  return {
    claimStoreUp: gauge(
      'claim_store_up',
      '1 if order IDs can be claimed; 0 if their store does not respond, or takes no more. Absent without payments.once.',
    ),
    claimDuration: histogram(
      'claim_duration_seconds',
      'Duration of a claim of an order ID, whatever its result.',
      ['environment'],
      keyFetchBuckets,
    ),
  };
}

function auditMetrics({ counter, gauge }: MetricFactory) {
  return {
    auditRecords: counter('audit_records_total', 'Number of audit records written.'),
    auditLost: counter(
      'audit_records_lost_total',
      'Number of audit records lost because they could not be written.',
    ),
    auditOmitted: counter(
      'audit_records_omitted_total',
      'Number of rejected requests and verified callbacks without an audit record, because of the limit of their caller.',
    ),
    auditUp: gauge(
      'audit_up',
      '1 if the last write of audit records succeeded. Absent without an audit trail.',
    ),
    auditSequence: gauge(
      'audit_sequence',
      'Sequence number of the newest audit record. Absent before the first one.',
    ),
    auditHead: gauge(
      'audit_head',
      'First 48 bits of the MAC of the newest audit record, as a number. Absent before the first one.',
    ),
  };
}
