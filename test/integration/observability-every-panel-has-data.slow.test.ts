import { randomUUID } from 'node:crypto';
import { globSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { z } from 'zod';
import { dashboards } from '../../scripts/dashboards/dashboards.ts';
import { parameter } from '../../src/simulator/verified-request.ts';
import { auditIn } from '../support/audit.ts';
import { everything, tokenCredential } from '../support/config.ts';
import { paths, statusForm, transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { jwtCaller } from '../support/jwt.ts';
import { type OidcServer, startOidcServer } from '../support/oidc-server.ts';
import { type PrometheusServer, startPrometheus } from '../support/prometheus-server.ts';
import { describeWith } from '../support/requires.ts';
import { type TestProxy, testPrivateKey } from '../support/service.ts';
import { controlKey, gatewayKeys } from '../support/simulator.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { roleName, VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';
import { publicKeyOf, vectorText } from '../support/vectors.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const tokens = { billing: 'token-of-billing', trial: 'token-of-trial' };
const queries = Object.values(dashboards).flatMap(({ title, sections }) =>
  sections
    .flatMap(({ panels }) => panels)
    .flatMap((panel) => Object.values(panel.queries).map((expr) => [title, panel.title, expr] as const)),
);

const starts = harness(afterAll);
let proxy: TestProxy;
let issuer: OidcServer;
let prometheus: PrometheusServer;

const caller = (name: keyof typeof tokens, more: object) => ({
  name,
  credentials: [tokenCredential(tokens[name])],
  ...more,
});

/** One request of every kind that the dashboards distinguish. */
async function mixedTraffic(): Promise<void> {
  const as = (name: keyof typeof tokens) => ({
    Authorization: `Bearer ${tokens[name]}`,
    traceparent: `00-${traceId}-00f067aa0ba902b7-01`,
  });
  const { post } = proxy;
  const { balance, status, transfer } = paths;
  await post(balance, '', as('billing'));
  await post(balance.replace('acme', 'beta'), '', as('billing'));
  await post(status, statusForm, as('billing'));
  await post(status.replace('1234', '1235'), 'login=beta&client_orderid=1', as('billing'));
  await post(transfer, transferForm.replace('=invoice-7', `=${randomUUID()}`), as('billing'));
  await post(transfer, `client_orderid=cut-${randomUUID()}&amount=1&currency=EUR`, as('billing'));
  await post(status, 'login=acme&client_orderid=broken', as('billing'));
  await post(status, 'login=acme&client_orderid=invoice-2', as('billing'));
  await post(status, 'login=acme&client_orderid=invoice-4', as('billing'));
  await post(status, 'login=acme&client_orderid=invoice-1', as('trial'));
  await post(status.replace('1234', '1235'), 'login=unknown&client_orderid=1', as('billing'));
  await post(status, 'login=acme', as('billing'));
  const callback = 'status=approved&orderid=1&client_orderid=1&control=forged';
  await post('/sandbox/gw/verify-callback/1234', callback, as('billing'));
  await post(status, statusForm, { Authorization: 'Bearer unknown' });
  await post(balance, '', { Authorization: `Bearer ${await issuer.sign({ sub: 'shop' })}` });
}

async function start(): Promise<void> {
  const gateway = await starts.simulator({
    clock: () => Date.now(),
    fault: (_operation, call) => {
      const order = parameter(call, 'client_orderid');
      if (order?.startsWith('cut')) return { fault: 'reset' };
      return order === 'broken' ? { fault: 'status-500' } : undefined;
    },
  });
  const vault = starts.closing(await new VaultTestEnvironment({ clock: () => Date.now() }).open());
  const putKey = (privateKey: string) =>
    vault.admin.put('gateway/sandbox/acme', { control_key: controlKey, private_key: privateKey });
  const nextPublicKey = publicKeyOf('rsa-4096-public.pem');
  await putKey(testPrivateKey);
  await vault.admin.enable('mounts', 'transit', { type: 'transit' });
  await vault.admin.newTransitKey('beta');
  const beta = { control_key: 'not registered at the gateway', transit_key: 'beta:1' };
  await vault.admin.put('gateway/sandbox/beta', beta);
  const token = await vault.admin.token({ policies: [roleName], ttl: '1h' });
  issuer = starts.closing(await startOidcServer());
  const ca = new Ca(vault.folder.path, 'ca');
  const admin = ca.issue('admin');
  proxy = await starts.proxy({
    gateway: gateway.url,
    sandbox: { caFile: ca.file },
    config: {
      admin: { port: 0, tls: { certFile: admin.certFile, keyFile: admin.keyFile } },
      audit: auditIn(vault.folder),
      payments: { once: { store: 'memory' } },
      keys: vaultKeys(
        vault.vault.address,
        { auth: { method: 'token', token }, transit: { mounts: { sandbox: 'transit' } } },
        { cache: { ttl: '500ms' } },
      ),
      jwtIssuers: { idp: { issuer: issuer.url, audience: 'countersign' } },
      callers: [
        jwtCaller('shop', { subject: 'shop' }),
        caller('billing', { allow: [{ ...everything, logins: ['acme', 'beta'] }] }),
        caller('trial', { mode: 'dry-run' }),
      ],
    },
  });
  const scrape = {
    job_name: 'countersign',
    scheme: 'https',
    tls_config: { ca_file: ca.file },
    static_configs: [
      { targets: [new URL(proxy.adminUrl).host], labels: { namespace: 'payments', release: 'pay' } },
    ],
  } as const;
  const rules = globSync('deploy/prometheus/*.rules.yaml').map((file) => resolve(file));
  prometheus = starts.closing(await startPrometheus([scrape], rules));
  // The first scrape takes 5 seconds. Rates need two scrapes, with requests between them.
  await until(async () => (await prometheus.query('up == 1')).length === 1, 'it is scraped', 15);
  for (let round = 0; round < 7; round += 1) {
    // A rotation, and a key that waits until the end.
    if (round === 1) await putKey(vectorText('keys/rsa-4096-pkcs8.pem'));
    if (round === 2) gateway.simulator.keys.set('acme', { ...gatewayKeys, publicKeys: [nextPublicKey] });
    if (round === 3) await putKey(testPrivateKey);
    // An outage of Vault's secrets until the end, during which cached keys keep working.
    if (round === 5) vault.vault.fail({ kind: 'status', status: 503 }, /^secret\/data/);
    await mixedTraffic();
    await new Promise((done) => setTimeout(done, 700));
  }
  const isScraped = async () => {
    await mixedTraffic();
    return (await prometheus.query('countersign_cached_keys_remaining_seconds')).length > 0;
  };
  await until(isScraped, 'the outage is scraped', 15);
}

const alert = z.object({
  state: z.string(),
  labels: z.record(z.string(), z.string()),
  annotations: z.record(z.string(), z.string()),
});

describeWith('prometheus')('a real Prometheus that scrapes Countersign under mixed traffic', () => {
  beforeAll(start, 60_000);

  it.each(queries)('%s: %s', async (_dashboard, _panel, expr) => {
    const concrete = expr
      .replaceAll(/\$environment|\$operation|\$namespace|\$release/g, '.+')
      .replaceAll('$__rate_interval', '10s')
      .replaceAll('$__range', '1m');
    const values = (await prometheus.query(concrete)).map(({ value: [, text] }) => Number(text));
    expect(values.some((value) => Number.isFinite(value))).toBe(true);
  });

  it('reads the page as OpenMetrics without errors, with exemplars', async () => {
    const targets = z.object({
      activeTargets: z.array(z.object({ health: z.string(), lastError: z.string() })),
    });
    const { activeTargets } = targets.parse(await prometheus.api('targets'));
    expect(activeTargets).toEqual([{ health: 'up', lastError: '' }]);
    const now = Date.now() / 1000;
    const exemplars = await prometheus.api(
      `query_exemplars?query=countersign_request_duration_seconds_bucket&start=${now - 60}&end=${now}`,
    );
    expect(JSON.stringify(exemplars)).toContain(`"trace_id":"${traceId}"`);
  });

  it('evaluates every rule without an error', async () => {
    const rules = z.object({
      groups: z.array(z.object({ rules: z.array(z.object({ name: z.string(), health: z.string() })) })),
    });
    const { groups } = rules.parse(await prometheus.api('rules'));
    const unhealthy = groups.flatMap((group) => group.rules).filter(({ health }) => health !== 'ok');
    expect(unhealthy).toEqual([]);
  });

  it('pages for the payment with an unknown outcome, with complete texts', async () => {
    const alerts = z.object({ alerts: z.array(alert) });
    await until(async () => {
      const { alerts: seen } = alerts.parse(await prometheus.api('alerts'));
      const unknown = seen.find(({ labels }) => labels.alertname === 'CountersignOutcomeUnknown');
      return (
        unknown?.annotations.summary === 'Unknown outcome of transfer in sandbox' &&
        (unknown.annotations['description'] ?? '').endsWith('Release pay in namespace payments.')
      );
    });
  });
});
