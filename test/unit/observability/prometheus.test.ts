import { randomUUID } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { createPrometheus, type Prometheus, type Readings } from '../../../src/observability/prometheus.ts';
import type { RequestContext } from '../../../src/request-context.ts';
import { samples, series } from '../../support/exposition.ts';
import { noReadings, routesOf } from '../../support/routes.ts';

const routes = routesOf({ sandbox: 50, production: 500 });
const route = { environment: 'sandbox', operation: 'transfer' };

function create(): Prometheus {
  return createPrometheus({ version: '1.2.3', routes });
}

async function read(metrics: Prometheus, readings: Partial<Readings> = {}) {
  return samples((await metrics.page(false, { ...noReadings, ...readings })).body);
}

function ended(fields: Partial<RequestContext> = {}): RequestContext {
  return {
    id: randomUUID(),
    startedAt: 0,
    ...route,
    outcome: 'answered',
    attempts: 1,
    durations: {},
    ...fields,
  };
}

it.each([false, true])(
  'the page is rendered in slices, one metric in each turn; OpenMetrics: %s',
  async (openMetrics) => {
    let turns = 0;
    const count = (): void => {
      turns += 1;
      next = setImmediate(count);
    };
    let next = setImmediate(count);
    const { body } = await create().page(openMetrics, noReadings);
    clearImmediate(next);
    expect(body.match(/^# TYPE /gm)?.length).toBeGreaterThan(40);
    expect(turns).toBeGreaterThan(40);
    expect(body.match(/^# EOF$/gm)?.length ?? 0).toBe(openMetrics ? 1 : 0);
    expect(body.endsWith(openMetrics ? '\n# EOF\n' : '\n')).toBe(true);
  },
);

describe('a finished request', () => {
  it('is counted by route, caller, status, reason, outcome and fault', async () => {
    const metrics = create();
    metrics.requestFinished(ended({ caller: 'billing', status: 200, gatewayStatus: 200 }));
    metrics.requestFinished(
      ended({ caller: 'billing', status: 504, reason: 'gateway-timeout', outcome: 'unknown' }),
    );
    const page = await read(metrics);
    const whole = { ...route, caller: 'billing' };
    const requests = 'countersign_requests_total';
    expect(page.get(series(requests, { ...whole, status: '200', reason: 'none' }))).toBe(1);
    expect(page.get(series(requests, { ...whole, status: '504', reason: 'gateway-timeout' }))).toBe(1);
    const outcomes = 'countersign_request_outcomes_total';
    expect(page.get(series(outcomes, { ...route, outcome: 'answered', fault: 'none' }))).toBe(1);
    expect(page.get(series(outcomes, { ...route, outcome: 'unknown', fault: 'gateway' }))).toBe(1);
  });

  it('is counted by login, which has a name if the gateway got a request of it, and only a thousand have one', async () => {
    const metrics = create();
    const request = (login: string, fields: Partial<RequestContext>) =>
      metrics.requestFinished(ended({ login, ...fields }));
    request('never', { status: 502, reason: 'key-missing' });
    request('acme', { status: 200, gatewayStatus: 200 });
    request('acme', { status: 403, gatewayStatus: 403 });
    request('acme', { status: 502, reason: 'key-unusable' });
    for (let index = 0; index < 1_000; index += 1)
      request(`login-${index}`, { status: 200, gatewayStatus: 200 });
    const page = await read(metrics);
    const count = (login: string, result: string) =>
      page.get(series('countersign_login_requests_total', { environment: 'sandbox', login, result }));
    expect(['other', 'rejected', 'no-key'].map((result) => count('acme', result))).toEqual([1, 1, 1]);
    expect([count('never', 'no-key'), count('other', 'no-key')]).toEqual([undefined, 1]);
    expect([count('login-998', 'rejected'), count('login-999', 'other')]).toEqual([0, undefined]);
  });

  it('before its route was known is counted as none', async () => {
    const metrics = create();
    const { environment: _, operation: __, ...nowhere } = ended({ status: 404, reason: 'unknown-route' });
    metrics.requestFinished(nowhere);
    const labels = {
      environment: 'none',
      operation: 'none',
      caller: 'none',
      status: '404',
      reason: 'unknown-route',
    };
    expect((await read(metrics)).get(series('countersign_requests_total', labels))).toBe(1);
  });

  it('is counted by gateway rejection and by error code', async () => {
    const metrics = create();
    metrics.requestFinished(ended({ rejection: 'clock-skew' }));
    metrics.requestFinished(ended({ gatewayErrorCode: '124' }));
    const page = await read(metrics);
    expect(page.get(series('countersign_gateway_rejections_total', { ...route, cause: 'clock-skew' }))).toBe(
      1,
    );
    expect(page.get(series('countersign_gateway_rejections_total', { ...route, cause: 'current-key' }))).toBe(
      0,
    );
    const rejections = [...page].filter(([name]) => name.startsWith('countersign_gateway_rejections_total'));
    expect(rejections.reduce((sum, [, count]) => sum + count, 0)).toBe(1);
    expect(page.get(series('countersign_gateway_error_codes_total', { ...route, code: '124' }))).toBe(1);
  });

  it('has its duration in a histogram', async () => {
    const metrics = create();
    metrics.requestFinished(ended({ durations: { total: 0.3 } }));
    const page = await read(metrics);
    const bucket = 'countersign_request_duration_seconds_bucket';
    expect(page.get(series(bucket, { le: '0.25', ...route }))).toBe(0);
    expect(page.get(series(bucket, { le: '0.5', ...route }))).toBe(1);
  });

  it('has buckets above the default timeout of 30 s', async () => {
    const metrics = create();
    metrics.requestFinished(ended({ durations: { total: 44 } }));
    metrics.requestFinished(ended({ durations: { total: 59 } }));
    metrics.gatewayResponded({ ...route, status: 200, seconds: 44 });
    const page = await read(metrics);
    const bucket = 'countersign_request_duration_seconds_bucket';
    expect(page.get(series(bucket, { le: '30', ...route }))).toBe(0);
    expect(page.get(series(bucket, { le: '45', ...route }))).toBe(1);
    expect(page.get(series(bucket, { le: '60', ...route }))).toBe(2);
    const gateway = 'countersign_gateway_request_duration_seconds_bucket';
    expect(page.get(series(gateway, { le: '45', ...route }))).toBe(1);
  });
});

describe('the gateway', () => {
  it('is counted per response, with duration and clock skew', async () => {
    const metrics = create();
    metrics.gatewayResponded({ ...route, status: 403, seconds: 0.2, clockSkew: -90 });
    metrics.gatewayResponded({ ...route, status: 200, seconds: 0.2 });
    metrics.requestFinished(ended({ gatewayResult: 'declined' }));
    const page = await read(metrics);
    expect(page.get(series('countersign_gateway_responses_total', { ...route, status: '403' }))).toBe(1);
    expect(page.get(series('countersign_gateway_results_total', { ...route, result: 'declined' }))).toBe(1);
    expect(page.get(series('countersign_gateway_request_duration_seconds_count', route))).toBe(2);
    expect(page.get('countersign_gateway_clock_skew_seconds{environment="sandbox"}')).toBe(-90);
  });

  it('adds no series for unregistered statuses', async () => {
    const metrics = create();
    for (let status = 600; status < 999; status += 1)
      metrics.gatewayResponded({ ...route, status, seconds: 1 });
    const responses = series('countersign_gateway_responses_total', { ...route, status: 'other' });
    expect((await read(metrics)).get(responses)).toBe(399);
  });
});

describe('the process', () => {
  it('shows in-flight requests and their limit', async () => {
    const metrics = create();
    metrics.signingQueueChanged(4);
    const page = await read(metrics, { inFlight: (name) => (name === 'sandbox' ? 1 : 0) });
    expect(page.get('countersign_requests_in_flight{environment="sandbox"}')).toBe(1);
    expect(page.get('countersign_requests_in_flight{environment="production"}')).toBe(0);
    expect(page.get('countersign_requests_in_flight_limit{environment="production"}')).toBe(500);
    expect(page.get('countersign_signing_queue_depth')).toBe(4);
  });

  it('counts signatures, keys and decisions', async () => {
    const metrics = create();
    metrics.signed('RSA-SHA256', 0.002);
    metrics.keyLookup('sandbox', 'stale');
    metrics.keyFetched('vault', 0.02);
    metrics.keyFetched('attic', 0.02);
    metrics.keyProblem('cannot be parsed', { environment: 'sandbox', login: 'acme' });
    metrics.authorizationDecided('billing', 'would-deny');
    const page = await read(metrics);
    expect(page.get('countersign_signatures_total{method="RSA-SHA256"}')).toBe(1);
    expect(page.get('countersign_signing_duration_seconds_count{method="RSA-SHA256"}')).toBe(1);
    expect(page.get('countersign_key_cache_lookups_total{environment="sandbox",result="stale"}')).toBe(1);
    expect(page.get('countersign_key_fetch_duration_seconds_count{source="vault"}')).toBe(1);
    expect(page.get('countersign_key_fetch_duration_seconds_count{source="other"}')).toBe(1);
    expect(page.get('countersign_key_problems_total{environment="sandbox"}')).toBe(1);
    expect(
      page.get('countersign_authorization_decisions_total{caller="billing",decision="would-deny"}'),
    ).toBe(1);
  });

  it('has no key source metrics before the first read', async () => {
    const metrics = create();
    const before = await read(metrics);
    expect(before.has('countersign_key_source_up')).toBe(false);
    expect(before.has('countersign_vault_token_expiry_timestamp_seconds')).toBe(false);
    metrics.keySourceUp(false);
    expect(before.has('countersign_vault_token_lease_seconds')).toBe(false);
    metrics.tokenExpiryChanged(1_800_000_000, 600);
    const after = await read(metrics);
    expect(after.get('countersign_key_source_up')).toBe(0);
    expect(after.get('countersign_vault_token_expiry_timestamp_seconds')).toBe(1_800_000_000);
    expect(after.get('countersign_vault_token_lease_seconds')).toBe(600);
    metrics.tokenExpiryChanged(undefined);
    expect((await read(metrics)).has('countersign_vault_token_expiry_timestamp_seconds')).toBe(false);
    expect((await read(metrics)).has('countersign_vault_token_lease_seconds')).toBe(false);
  });

  it('shows problems with keys, and forgets what concerns a key source that was replaced', async () => {
    const metrics = create();
    metrics.keySourceUp(true);
    metrics.loginFailed('the secret ID is used up');
    metrics.loginsDenied(3, 'no permission');
    metrics.loginsNotFound(4, undefined);
    metrics.cachedKeysExpire(50);
    const page = await read(metrics);
    expect(page.get('countersign_key_source_up')).toBe(0);
    expect(page.get('countersign_key_problems_total{environment="none"}')).toBe(1);
    expect(page.get('countersign_key_source_denied_logins')).toBe(3);
    expect(page.get('countersign_key_logins_not_found')).toBe(4);
    expect(page.get('countersign_cached_keys_remaining_seconds')).toBe(50);
    metrics.keySourceReplaced('vault');
    metrics.cachedKeysExpire(undefined);
    const after = await read(metrics);
    expect(after.get('countersign_key_source_denied_logins')).toBe(0);
    expect(after.has('countersign_cached_keys_remaining_seconds')).toBe(false);
  });

  it('counts what was left out, lost or rejected before a request', async () => {
    const metrics = create();
    metrics.auditRecordsLost(3);
    metrics.auditRecordsOmitted(4);
    metrics.spansCounted('rejected', 5);
    metrics.connectionRejected();
    metrics.logLineSuppressed();
    metrics.logLineSuppressed();
    const page = await read(metrics);
    expect(page.get('countersign_audit_records_lost_total')).toBe(3);
    expect(page.get('countersign_audit_records_omitted_total')).toBe(4);
    expect(page.get('countersign_spans_total{result="rejected"}')).toBe(5);
    expect(page.get('countersign_connections_dropped_total')).toBe(1);
    expect(page.get('countersign_log_lines_suppressed_total')).toBe(2);
  });

  it('shows whether audit records are written, and the last configuration in effect', async () => {
    const metrics = create();
    const states = [
      'countersign_audit_up',
      'countersign_config_last_reload_successful',
      'countersign_config_last_reload_success_timestamp_seconds',
    ];
    const shown = async () => {
      const page = await read(metrics);
      return states.map((name) => page.get(name));
    };
    expect(await shown()).toEqual([undefined, undefined, undefined]);
    metrics.auditUp(true);
    metrics.configLoaded(true, 5);
    expect(await shown()).toEqual([1, 1, 5]);
    metrics.auditUp(false, 'ENOSPC');
    metrics.configLoaded(false, 7);
    expect(await shown()).toEqual([0, 0, 5]);
  });

  it('shows what is read when the page is rendered, and nothing of what was read before', async () => {
    const metrics = create();
    const validity = { from: 1_000, until: 2_000 };
    const before = await read(metrics, {
      certificates: [
        { name: 'listener', ...validity },
        { name: 'gateway-ca', environment: 'sandbox', ...validity },
      ],
      jwtKeysFetchedAt: new Map([
        ['idp', 5_000],
        ['other', 0],
      ]),
      logLinesDropped: 3,
    });
    const expiry = (labels: object) =>
      series('countersign_certificate_expiry_timestamp_seconds', { ...labels });
    const start = 'countersign_certificate_not_before_timestamp_seconds';
    const fetched = 'countersign_jwt_keys_fetched_timestamp_seconds';
    const ca = { certificate: 'gateway-ca', environment: 'sandbox' };
    expect(before.get(expiry({ certificate: 'listener', environment: 'none' }))).toBe(2);
    expect(before.get(expiry(ca))).toBe(2);
    expect(before.get(series(start, ca))).toBe(1);
    expect(before.get(series(fetched, { issuer: 'idp' }))).toBe(5);
    expect(before.get(series(fetched, { issuer: 'other' }))).toBe(0);
    expect(before.get('countersign_log_lines_dropped_total')).toBe(3);
    const after = await read(metrics, {
      certificates: [{ name: 'listener', ...validity }],
      logLinesDropped: 4,
    });
    expect(after.has(expiry(ca)) || after.has(series(fetched, { issuer: 'idp' }))).toBe(false);
    expect(after.get(expiry({ certificate: 'listener', environment: 'none' }))).toBe(2);
    expect(after.get('countersign_log_lines_dropped_total')).toBe(4);
  });

  it('shows its version', async () => {
    const labels = { version: '1.2.3', node_version: process.version };
    expect((await read(create())).get(series('countersign_build_info', labels))).toBe(1);
  });
});

it('counters of a route begin at 0, so that their first event is an increase', async () => {
  const ofRoute = [...(await read(create()))].filter(([name]) =>
    Object.entries(route).every(([label, value]) => name.includes(`${label}="${value}"`)),
  );
  const counters = ofRoute.filter(([name]) => /_total\{/.test(name));
  expect(new Set(counters.map(([name]) => name.replace(/\{.*/, '')))).toEqual(
    new Set(
      [
        'gateway_connection_failures',
        'gateway_error_codes',
        'gateway_rejections',
        'gateway_responses',
        'gateway_results',
        'order_mismatches',
        'payment_server_errors',
        'request_outcomes',
      ].map((name) => `countersign_${name}_total`),
    ),
  );
  expect(new Set(counters.map(([, value]) => value))).toEqual(new Set([0]));
});

it('all other counters begin at 0 too, but for those with too many labels', async () => {
  const { body } = await create().page(false, noReadings);
  const counters = [...body.matchAll(/^# TYPE (countersign_\w+) counter$/gm)].map(([, name = '']) => name);
  const names = [...samples(body)].map(([name]) => name.replace(/\{.*/, ''));
  expect(counters.filter((name) => !names.includes(name))).toEqual([
    'countersign_requests_total',
    // No issuer is configured.
    'countersign_jwt_verifications_total',
    'countersign_key_fallbacks_total',
    'countersign_tls_connections_total',
  ]);
  expect(names).not.toContain('countersign_cached_keys_remaining_seconds');
  // They are no counters.
  expect(body).not.toMatch(/^nodejs_active_\w+_total/m);
  const page = samples(body);
  expect(page.get('countersign_key_problems_total{environment="none"}')).toBe(0);
  const query = { environment: 'sandbox', operation: 'order-status' };
  expect(page.has(series('countersign_payment_server_errors_total', query))).toBe(false);
  // There is no egress proxy, and no Vault that signs.
  expect(body).not.toMatch(/cause="proxy-|transit_signature_duration_seconds_count\{/);
});

describe('a reloaded configuration', () => {
  it('adds its names to the labels, and counters continue', async () => {
    const metrics = create();
    metrics.keyLookup('sandbox', 'fresh');
    metrics.keyLookup('staging', 'fresh');
    metrics.reconfigure(routesOf({ sandbox: 50, production: 500, staging: 50 }));
    metrics.keyLookup('staging', 'fresh');
    const page = await read(metrics);
    expect(page.get('countersign_key_cache_lookups_total{environment="sandbox",result="fresh"}')).toBe(1);
    expect(page.get('countersign_key_cache_lookups_total{environment="other",result="fresh"}')).toBe(1);
    expect(page.get('countersign_key_cache_lookups_total{environment="staging",result="fresh"}')).toBe(1);
    expect(page.get('countersign_requests_in_flight_limit{environment="staging"}')).toBe(50);
  });

  it('still counts the end of a request whose environment it removed', async () => {
    const metrics = create();
    const inFlight = (count: number) => ({ inFlight: (name: string) => (name === 'sandbox' ? count : 0) });
    metrics.reconfigure(routesOf({ production: 500 }));
    const series = 'countersign_requests_in_flight{environment="sandbox"}';
    expect((await read(metrics, inFlight(1))).get(series)).toBe(1);
    expect((await read(metrics, inFlight(0))).get(series)).toBe(0);
  });
});

describe('the page', () => {
  const traceId = '0af7651916cd43dd8448eb211c80319c';

  it('has trace ids as exemplars in OpenMetrics only', async () => {
    const metrics = create();
    metrics.requestFinished(ended({ traceId, traceSampled: true, durations: { total: 0.3 } }));
    metrics.requestFinished(ended({ durations: { total: 0.3 } }));
    const open = await metrics.page(true, noReadings);
    expect(open.contentType).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8');
    expect(open.body).toMatch(
      new RegExp(`request_duration_seconds_bucket\\{le="0.5",[^}]*\\} 2 # \\{trace_id="${traceId}"\\} 0.3 `),
    );
    expect(open.body.endsWith('# EOF\n')).toBe(true);
    const plain = await metrics.page(false, noReadings);
    expect(plain.contentType).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(plain.body).not.toContain(traceId);
  });

  it('keeps the names of counters in either format and any order of requests', async () => {
    const metrics = create();
    const own = (body: string) => body.split('\n').filter((line) => line.includes('countersign_'));
    const plain = own((await metrics.page(false, noReadings)).body);
    const open = own((await metrics.page(true, noReadings)).body);
    expect(plain).toContain('# TYPE countersign_requests_total counter');
    expect(open).toContain('# TYPE countersign_requests counter');
    expect(open).toContain('countersign_signatures_total{method="HMAC-SHA1"} 0');
    expect(own((await metrics.page(false, noReadings)).body)).toEqual(plain);
    expect(own((await metrics.page(true, noReadings)).body)).toEqual(open);
  });
});
