import { createSecretKey, randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { createRoutes } from '../../../src/gateway/router.ts';
import type { UnusableKey, UsableKey } from '../../../src/keys/ring.ts';
import { createPrometheus, type Prometheus, type Readings } from '../../../src/observability/prometheus.ts';
import type { RequestContext } from '../../../src/request-context.ts';
import { Secret } from '../../../src/secret.ts';
import { configFor } from '../../support/config.ts';
import { samples } from '../../support/exposition.ts';
import { noReadings, routesOf } from '../../support/routes.ts';

const routes = routesOf({ sandbox: 50, production: 500 });
const route = { environment: 'sandbox', operation: 'transfer' };

let metrics: Prometheus;
beforeEach(() => {
  metrics = createPrometheus({ version: '1.2.3', routes });
});

/** The samples, without the prefix of their names. */
async function read(readings: Partial<Readings> = {}): Promise<Map<string, number>> {
  const { body } = await metrics.page(false, { ...noReadings, ...readings });
  return new Map([...samples(body)].map(([name, value]) => [name.replace(/^countersign_/, ''), value]));
}

/** @param expected by name; undefined: there is no such series */
async function expectSeries(
  expected: Readonly<Record<string, number | undefined>>,
  readings: Partial<Readings> = {},
): Promise<void> {
  const page = await read(readings);
  const shown = Object.keys(expected).map((name) => [name, page.get(name)]);
  expect(Object.fromEntries(shown)).toEqual(expected);
}

const ended = (fields: Partial<RequestContext> = {}): void =>
  metrics.requestFinished({
    id: randomUUID(),
    startedAt: 0,
    ...route,
    outcome: 'answered',
    attempts: 1,
    durations: {},
    ...fields,
  });

const ofRoute = 'environment="sandbox",operation="transfer"';

it.each<[string, () => void, Readonly<Record<string, number | undefined>>]>([
  [
    'a request by route, caller, status, reason, outcome and fault',
    () => {
      ended({ caller: 'billing', status: 200, gatewayStatus: 200 });
      ended({ caller: 'constructor', status: 499, outcome: 'not-sent' });
      ended({ caller: 'billing', status: 504, reason: 'gateway-timeout', outcome: 'unknown' });
    },
    {
      [`requests_total{${ofRoute},caller="billing",status="200",reason="none"}`]: 1,
      [`requests_total{${ofRoute},caller="billing",status="504",reason="gateway-timeout"}`]: 1,
      [`requests_total{${ofRoute},caller="other",status="499",reason="none"}`]: 1,
      [`request_outcomes_total{${ofRoute},outcome="answered",fault="none"}`]: 1,
      [`request_outcomes_total{${ofRoute},outcome="unknown",fault="gateway"}`]: 1,
      // From the start, as every other: a rate needs a value before the first event.
      [`request_outcomes_total{${ofRoute},outcome="unknown",fault="caller"}`]: 0,
    },
  ],
  [
    'a request before its route is known',
    () => {
      const nowhere = { status: 404, reason: 'unknown-route', outcome: 'not-sent', attempts: 0 } as const;
      metrics.requestFinished({ id: randomUUID(), startedAt: 0, durations: {}, ...nowhere });
    },
    {
      'requests_total{environment="none",operation="none",caller="none",status="404",reason="unknown-route"}': 1,
    },
  ],
  [
    'what the gateway rejected, its results, and callbacks',
    () => {
      ended({ rejection: 'clock-skew' });
      ended({ gatewayResult: 'declined' });
      ended({ orderMismatch: 'amount' });
      ended({ callback: 'not-verified' });
      ended({ readOnly: false, gatewayStatus: 502 });
    },
    {
      [`gateway_rejections_total{${ofRoute},cause="clock-skew"}`]: 1,
      [`gateway_rejections_total{${ofRoute},cause="current-key"}`]: 0,
      [`gateway_results_total{${ofRoute},result="declined"}`]: 1,
      [`order_mismatches_total{${ofRoute},field="amount"}`]: 1,
      [`payment_server_errors_total{${ofRoute}}`]: 1,
      'callbacks_total{environment="sandbox",result="not-verified"}': 1,
    },
  ],
  [
    'durations, also above the default timeout of 30 s',
    () => {
      for (const total of [0.3, 44, 59]) ended({ durations: { total } });
      metrics.gatewayResponded({ ...route, status: 200, seconds: 44 });
    },
    {
      [`request_duration_seconds_bucket{le="0.25",${ofRoute}}`]: 0,
      [`request_duration_seconds_bucket{le="0.5",${ofRoute}}`]: 1,
      [`request_duration_seconds_bucket{le="30",${ofRoute}}`]: 1,
      [`request_duration_seconds_bucket{le="45",${ofRoute}}`]: 2,
      [`request_duration_seconds_bucket{le="60",${ofRoute}}`]: 3,
      [`gateway_request_duration_seconds_bucket{le="45",${ofRoute}}`]: 1,
    },
  ],
  [
    'responses of the gateway, its clock skew, and statuses that do not exist in one series',
    () => {
      metrics.gatewayResponded({ ...route, status: 403, seconds: 0.2, clockSkew: -90 });
      for (const status of [600, 700, 998]) metrics.gatewayResponded({ ...route, status, seconds: 1 });
    },
    {
      [`gateway_responses_total{${ofRoute},status="403"}`]: 1,
      [`gateway_responses_total{${ofRoute},status="other"}`]: 3,
      [`gateway_request_duration_seconds_count{${ofRoute}}`]: 4,
      'gateway_clock_skew_seconds{environment="sandbox"}': -90,
    },
  ],
  [
    'signatures, reads of keys, and decisions',
    () => {
      metrics.signed('RSA-SHA256', 0.002);
      metrics.signingQueueChanged(4);
      metrics.keyLookup('sandbox', 'stale');
      metrics.keyFetched('vault', 0.02);
      metrics.keyFetched('attic', 0.02);
      metrics.keyProblem('cannot be parsed', { environment: 'sandbox', login: 'acme' });
      metrics.authorizationDecided('billing', 'would-deny');
    },
    {
      'signing_duration_seconds_count{method="RSA-SHA256"}': 1,
      signing_queue_depth: 4,
      'key_cache_lookups_total{environment="sandbox",result="stale"}': 1,
      'key_fetch_duration_seconds_count{source="vault"}': 1,
      'key_fetch_duration_seconds_count{source="other"}': 1,
      'key_problems_total{environment="sandbox"}': 1,
      'authorization_decisions_total{caller="billing",decision="would-deny"}': 1,
    },
  ],
  [
    'problems with keys and their source',
    () => {
      metrics.keySourceUp(true);
      metrics.loginFailed('the secret ID is used up');
      metrics.loginsDenied(3, 'no permission');
      metrics.loginsNotFound(4, undefined);
      metrics.cachedKeysExpire(50);
      metrics.tokenExpiryChanged(1_800_000_000, 600);
    },
    {
      key_source_up: 0,
      'key_problems_total{environment="none"}': 1,
      key_source_denied_logins: 3,
      key_logins_not_found: 4,
      cached_keys_remaining_seconds: 50,
      vault_token_expiry_timestamp_seconds: 1_800_000_000,
      vault_token_lease_seconds: 600,
    },
  ],
  [
    'nothing of a key source that was replaced, or of a token that does not expire',
    () => {
      metrics.loginsDenied(3, 'no permission');
      metrics.cachedKeysExpire(50);
      metrics.keySourceReplaced('vault');
      metrics.cachedKeysExpire(undefined);
      metrics.tokenExpiryChanged(1_800_000_000, 600);
      metrics.tokenExpiryChanged(undefined);
    },
    {
      key_source_denied_logins: 0,
      cached_keys_remaining_seconds: undefined,
      vault_token_expiry_timestamp_seconds: undefined,
      vault_token_lease_seconds: undefined,
    },
  ],
  [
    'what was left out, lost or rejected before a request',
    () => {
      metrics.auditRecordsLost(3);
      metrics.auditRecordsOmitted(4);
      metrics.spansCounted('rejected', 5);
      metrics.connectionRejected();
      metrics.logLineSuppressed();
    },
    {
      audit_records_lost_total: 3,
      audit_records_omitted_total: 4,
      'spans_total{result="rejected"}': 5,
      connections_dropped_total: 1,
      log_lines_suppressed_total: 1,
    },
  ],
  [
    'a trail that cannot be written, and a configuration that could not be loaded',
    () => {
      metrics.auditUp(false, 'ENOSPC');
      metrics.configLoaded();
      metrics.configLoaded('invalid');
    },
    { audit_up: 0, config_last_reload_successful: 0 },
  ],
  [
    'a trail that is written, and a configuration that is in effect',
    () => {
      metrics.auditUp(true);
      metrics.configLoaded();
    },
    { audit_up: 1, config_last_reload_successful: 1 },
  ],
  [
    'what the process is, and nothing of what has not happened',
    () => {},
    {
      [`build_info{version="1.2.3",node_version="${process.version}"}`]: 1,
      key_source_up: undefined,
      vault_token_expiry_timestamp_seconds: undefined,
      audit_up: undefined,
      config_last_reload_successful: undefined,
      cached_keys_remaining_seconds: undefined,
      'key_problems_total{environment="none"}': 0,
      key_logins_not_found: 0,
      key_source_denied_logins: 0,
      signing_queue_depth: 0,
      // A query is no payment.
      'payment_server_errors_total{environment="sandbox",operation="order-status"}': undefined,
    },
  ],
])('shows %s', async (_what, happens, expected) => {
  happens();
  await expectSeries(expected);
});

it('shows what is read when the page is rendered, and nothing of what was read before', async () => {
  const validity = { from: 1_000, until: 2_000 };
  const ca = 'certificate="gateway-ca",environment="sandbox"';
  const ofListener = { 'certificate_expiry_timestamp_seconds{certificate="listener",environment="none"}': 2 };
  await expectSeries(
    {
      ...ofListener,
      [`certificate_expiry_timestamp_seconds{${ca}}`]: 2,
      [`certificate_not_before_timestamp_seconds{${ca}}`]: 1,
      'jwt_keys_fetched_timestamp_seconds{issuer="idp"}': 5,
      log_lines_dropped_total: 3,
      'requests_in_flight{environment="sandbox"}': 1,
      'requests_in_flight{environment="production"}': 0,
      'requests_in_flight_limit{environment="production"}': 500,
    },
    {
      certificates: [
        { name: 'listener', ...validity },
        { name: 'gateway-ca', environment: 'sandbox', ...validity },
      ],
      jwtKeysFetchedAt: new Map([['idp', 5_000]]),
      logLinesDropped: 3,
      inFlight: (name) => (name === 'sandbox' ? 1 : 0),
    },
  );
  await expectSeries(
    {
      ...ofListener,
      [`certificate_expiry_timestamp_seconds{${ca}}`]: undefined,
      'jwt_keys_fetched_timestamp_seconds{issuer="idp"}': undefined,
      log_lines_dropped_total: 4,
    },
    { certificates: [{ name: 'listener', ...validity }], logLinesDropped: 4 },
  );
});

it('counts requests of a login by its name if the gateway got one of it, and of a thousand at most', async () => {
  const request = (login: string, fields: Partial<RequestContext>) => ended({ login, ...fields });
  const sent = { status: 200, gatewayStatus: 200 };
  request('never', { status: 502, reason: 'key-missing' });
  request('acme', sent);
  request('acme', { status: 403, gatewayStatus: 403 });
  request('acme', { status: 502, reason: 'key-unusable' });
  for (let index = 0; index < 1_000; index += 1) request(`login-${index}`, sent);
  const of = (login: string, result: string) =>
    `login_requests_total{environment="sandbox",login="${login}",result="${result}"}`;
  await expectSeries({
    [of('acme', 'other')]: 1,
    [of('acme', 'rejected')]: 1,
    [of('acme', 'no-key')]: 1,
    [of('never', 'no-key')]: undefined,
    [of('other', 'no-key')]: 1,
    [of('login-998', 'rejected')]: 0,
    [of('login-999', 'other')]: undefined,
  });
});

it('counters and histograms begin at 0, so that their first event is an increase, but for those with too many labels', async () => {
  const { body } = await metrics.page(false, noReadings);
  const rising = [...body.matchAll(/^# TYPE countersign_(\w+) (counter|histogram)$/gm)];
  const names = [...(await read()).keys()].map((name) => name.replace(/(_count)?(\{.*)?$/, ''));
  expect(rising.map(([, name = '']) => name).filter((name) => !names.includes(name))).toEqual([
    'requests_total',
    'request_duration_seconds',
    'gateway_request_duration_seconds',
    'key_fetch_duration_seconds',
    'transit_signature_duration_seconds',
    'key_fallbacks_total',
    // No issuer is configured.
    'jwt_verifications_total',
    'claim_duration_seconds',
    'tls_connections_total',
  ]);
  // They are no counters.
  expect(body).not.toMatch(/^nodejs_active_\w+_total/m);
  // There is no egress proxy, and no Vault that signs.
  expect(body).not.toMatch(/cause="proxy-|transit_signature_duration_seconds_count\{/);
});

it('a signature in Vault and a claim begin at 0 where they are configured', async () => {
  const auth = { method: 'token', tokenFile: 'token' } as const;
  const transit = { mounts: { sandbox: 'transit' } };
  const keys = { source: 'vault', vault: { address: 'https://vault.test', auth, transit } } as const;
  const config = configFor('https://gateway.test', { keys, payments: { once: { store: 'memory' } } });
  metrics = createPrometheus({ version: '1', routes: createRoutes(configSchema.parse(config)) });
  await expectSeries({
    'transit_signature_duration_seconds_count{environment="sandbox",result="denied"}': 0,
    'claim_duration_seconds_count{environment="sandbox"}': 0,
  });
});

describe('a reloaded configuration', () => {
  it('adds its names to the labels, and counters continue', async () => {
    const lookups = (environment: string) =>
      `key_cache_lookups_total{environment="${environment}",result="fresh"}`;
    metrics.keyLookup('sandbox', 'fresh');
    metrics.keyLookup('staging', 'fresh');
    metrics.reconfigure(routesOf({ sandbox: 50, production: 500, staging: 50 }));
    metrics.keyLookup('staging', 'fresh');
    await expectSeries({
      [lookups('sandbox')]: 1,
      [lookups('other')]: 1,
      [lookups('staging')]: 1,
      'requests_in_flight_limit{environment="staging"}': 50,
    });
  });

  it('still counts the end of a request whose environment it removed', async () => {
    metrics.reconfigure(routesOf({ production: 500 }));
    for (const count of [1, 0])
      await expectSeries(
        { 'requests_in_flight{environment="sandbox"}': count },
        { inFlight: (name) => (name === 'sandbox' ? count : 0) },
      );
  });
});

describe('the keys of a login', () => {
  const login = { environment: 'sandbox', login: 'acme' };
  const createdAt = new Date('2026-01-02T03:04:05Z');
  const control = (version: number): UsableKey => ({
    kind: 'control_key',
    version,
    createdAt,
    key: { kind: 'control_key', secret: new Secret('x') },
  });
  const rsa = (version: number): UsableKey => ({
    kind: 'private_key',
    version,
    key: { kind: 'private_key', privateKey: createSecretKey(Buffer.from('x')) },
  });
  const broken: UnusableKey = { kind: 'control_key', version: 9, problem: 'is empty' };
  const superseded = { ...broken, supersededAt: new Date() };
  const of = (name: string, kind = 'control_key', more = '') =>
    `key_${name}{environment="sandbox",login="acme",kind="${kind}"${more}}`;
  const fallbacks = (to: string) => of('fallbacks_total', 'control_key', `,to="${to}"`);
  const use = (...ring: Parameters<Prometheus['keyRingUpdated']>[1] & object) =>
    metrics.keyRingUpdated(login, ring);
  const keySeries = async () =>
    [...(await read()).keys()].filter((name) => name.startsWith('key_') && name.includes('login='));

  it.each<[string, () => void, Readonly<Record<string, number | undefined>>]>([
    [
      'each kind: latest version, signing version, age',
      () => use(control(4), rsa(4), control(3), rsa(2)),
      {
        [of('version')]: 4,
        [of('version', 'private_key')]: 4,
        [of('signing_version')]: 4,
        [of('created_timestamp_seconds')]: createdAt.getTime() / 1000,
        [of('created_timestamp_seconds', 'private_key')]: undefined,
        [of('accepted_version')]: undefined,
        [fallbacks('older')]: 0,
      },
    ],
    [
      'the latest usable version and the number of unusable ones',
      () => use(broken, control(3)),
      { [of('version')]: 3, [of('unusable_versions')]: 1 },
    ],
    [
      'no bad version that a newer one replaced',
      () => use(control(10), superseded, control(8)),
      { [of('unusable_versions')]: 0 },
    ],
    [
      'nothing of a kind that was removed',
      () => {
        use(control(4), rsa(4));
        use(rsa(5));
      },
      { [of('version')]: undefined, [of('version', 'private_key')]: 5 },
    ],
    [
      'the current key as the signing version while a newer one waits',
      () => {
        use(control(3));
        use(control(4), control(3));
      },
      { [of('signing_version')]: 3 },
    ],
    [
      'the latest as the signing version if the current one may no longer be used',
      () => {
        use(control(3));
        use(control(5), control(4));
      },
      { [of('signing_version')]: 5 },
    ],
    [
      'a change of the current key, and the version that the gateway accepted',
      () => {
        use(control(4), control(3));
        metrics.currentKeyChanged(login, 'control_key', 4, 3);
        metrics.keyAccepted(login, 'control_key', 3);
      },
      {
        [of('signing_version')]: 3,
        [of('accepted_version')]: 3,
        [fallbacks('older')]: 1,
        [fallbacks('newer')]: 0,
      },
    ],
  ])('show %s', async (_what, happens, expected) => {
    happens();
    await expectSeries(expected);
  });

  it('leave no series after the login was removed, and a login that is not in use has none', async () => {
    use(control(4), control(3));
    metrics.keyAccepted(login, 'control_key', 3);
    const stranger = { ...login, login: 'stranger' };
    metrics.currentKeyChanged(stranger, 'control_key', 4, 3);
    metrics.keyAccepted(stranger, 'control_key', 3);
    expect((await keySeries()).filter((name) => name.includes('stranger'))).toEqual([]);
    metrics.keyRingUpdated(login, undefined);
    expect(await keySeries()).toEqual([]);
  });

  it('beyond the limit are not shown until others are removed', async () => {
    for (let at = 0; at < 1200; at += 1)
      metrics.keyRingUpdated({ ...login, login: `m${at}` }, [control(1), rsa(1)]);
    const shown = (await keySeries()).filter((name) => name.startsWith('key_version'));
    expect(shown).toHaveLength(2000);
    metrics.keyRingUpdated({ ...login, login: 'm0' }, undefined);
    use(control(1), rsa(1));
    await expectSeries({ [of('version', 'private_key')]: 1 });
  });
});

describe('the page', () => {
  it.each([false, true])('is rendered in slices, one metric in each turn; OpenMetrics: %s', async (open) => {
    let turns = 0;
    const count = (): void => {
      turns += 1;
      next = setImmediate(count);
    };
    let next = setImmediate(count);
    const { body } = await metrics.page(open, noReadings);
    clearImmediate(next);
    expect(body.match(/^# TYPE /gm)?.length).toBeGreaterThan(40);
    expect(turns).toBeGreaterThan(40);
    expect(body.match(/^# EOF$/gm)?.length ?? 0).toBe(open ? 1 : 0);
    expect(body.endsWith(open ? '\n# EOF\n' : '\n')).toBe(true);
  });
});
