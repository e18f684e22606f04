import { describe, expect, it } from '@jest/globals';
import { type ConfigInput, environmentFor, everything, tokenCredential } from '../support/config.ts';
import { silent } from '../support/faulty-gateway.ts';
import { type HttpResponse, paths, transferForm, verdict } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { jwtCaller } from '../support/jwt.ts';
import { issuerKey, startOidcServer } from '../support/oidc-server.ts';
import { formRequest, type RawConnection } from '../support/raw-http.ts';
import { testControlKey, testPrivateKey, writeKeys } from '../support/service.ts';
import { until } from '../support/until.ts';
import { vectorText } from '../support/vectors.ts';

const starts = harness();

const modest = { name: 'modest', credentials: [{ anonymous: true as const }], allow: [everything] };
const greedy = { name: 'greedy', credentials: [tokenCredential('greedy')], allow: [everything] };

function expectOverloaded(response: HttpResponse): void {
  expect(verdict(response)).toBe('503 overloaded not-sent not-sent');
  expect(response.headers['retry-after']).toBe('1');
}

describe('one request more than maxInFlight', () => {
  it('is rejected immediately and not sent, until a slot is released', async () => {
    const edge = await starts.edge({ sandbox: { maxInFlight: 2 } });
    const release = edge.gateway.hold();
    const first = [edge.transfer(), edge.balance()];
    await until(() => edge.gateway.requests.length === 2);
    expect(await edge.counted('requests_in_flight')).toBe(2);
    const limited = { outcome: 'not-sent', caller: 'local', limit: 'environments.*.maxInFlight' };
    for (const rejected of [await edge.transfer(), await edge.balance()]) {
      expectOverloaded(rejected);
      expect(await edge.lineOf(rejected)).toMatchObject({ status: 503, attempts: 0, ...limited });
    }
    expect(edge.gateway.requests).toHaveLength(2);
    release();
    for (const response of await Promise.all(first)) expect(response.status).toBe(200);
    expect(await edge.transfer()).toMatchObject({ status: 200 });
    expect(await edge.counted('requests_in_flight')).toBe(0);
    expect(await edge.counted('requests_total', { reason: 'overloaded', status: '503' })).toBe(2);
  });

  it('to one environment does not affect the others', async () => {
    const stuck = await starts.gateway([silent]);
    const quick = await starts.recordingGateway();
    const environments = {
      sandbox: { ...environmentFor(stuck.url), maxInFlight: 1 },
      staging: { ...environmentFor(quick.url), maxInFlight: 1 },
    };
    const proxy = await starts.proxy({ config: { environments } });
    writeKeys(proxy.keysFolder, 'staging', 'acme', { privateKey: testPrivateKey });
    const first = proxy.transfer();
    await until(() => stuck.requests().length === 1);
    expectOverloaded(await proxy.transfer());
    expect((await proxy.post('/staging/gw/api/v4/transfer/1234', transferForm)).status).toBe(200);
    await stuck.close();
    expect(verdict(await first)).toMatch(/^502 gateway-reset unknown/);
  });

  it('counts a request whose client has disconnected until the gateway has responded', async () => {
    const edge = await starts.edge({ sandbox: { maxInFlight: 1 } });
    const release = edge.gateway.hold();
    const caller = (await edge.connect()).send(formRequest(paths.transfer, transferForm));
    await until(() => edge.gateway.requests.length === 1);
    caller.close();
    expectOverloaded(await edge.transfer());
    release();
    await until(async () => (await edge.counted('requests_in_flight')) === 0);
    expect(await edge.transfer()).toMatchObject({ status: 200 });
  });
});

it('one request more than a caller may have in flight is rejected with 429 and not sent, while other callers are served', async () => {
  const callers = [{ ...greedy, maxInFlight: 2 }, modest];
  const edge = await starts.edge({ config: { callers }, sandbox: { maxInFlight: 5 } });
  const pay = () => edge.post(paths.transfer, transferForm, { Authorization: 'Bearer greedy' });
  const release = edge.gateway.hold();
  const sent = [pay(), pay()];
  await until(() => edge.gateway.requests.length === 2);
  const rejected = await pay();
  expect(verdict(rejected)).toBe('429 caller-limit not-sent not-sent');
  expect(rejected.headers['retry-after']).toBe('1');
  sent.push(edge.transfer(), edge.transfer());
  await until(() => edge.gateway.requests.length === 4);
  const labels = { reason: 'caller-limit', status: '429', caller: 'greedy' };
  expect(await edge.counted('requests_total', labels)).toBe(1);
  expect(await edge.counted('request_outcomes_total', { fault: 'countersign' })).toBe(0);
  expect((await edge.instanceStatus()).findings).toMatchObject([
    { code: 'caller-limited', caller: 'greedy', severity: 'warn' },
  ]);
  await edge.reload({ callers: [{ ...greedy, maxInFlight: 3 }, modest] });
  sent.push(pay());
  await until(() => edge.gateway.requests.length === 5);
  expect(verdict(await pay())).toBe('429 caller-limit not-sent not-sent');
  release();
  for (const response of await Promise.all(sent)) expect(response.status).toBe(200);
  expect((await pay()).status).toBe(200);
});

it('a full signing queue rejects RSA signatures, but not those of another caller or HMAC ones, and recovers', async () => {
  // A long key takes long to sign, so the queue is sure to fill.
  const keys = { acme: { controlKey: testControlKey, privateKey: vectorText('keys/rsa-4096-pkcs8.pem') } };
  const config = { signing: { concurrency: 1, maxQueue: 4 }, callers: [greedy, modest] };
  const proxy = await starts.edge({ keys, config });
  const pay = () => proxy.post(paths.transfer, transferForm, { Authorization: 'Bearer greedy' });
  // All but one or two of those that arrive at the same time find the caller's half of the room taken.
  const flood = Array.from({ length: 24 }, async () => {
    const own = [await pay()];
    while (own.length < 8) own.push(await pay());
    return own;
  });
  for (let count = 0; count < 10; count += 1) expect((await proxy.transfer()).status).toBe(200);
  const responses = (await Promise.all(flood)).flat();
  const rejected = responses.filter(({ status }) => status === 503);
  for (const response of rejected) expectOverloaded(response);
  expect(rejected.length).toBeGreaterThan(0);
  expect(responses.filter(({ status }) => status === 200).length).toBe(24 * 8 - rejected.length);
  const balances = await Promise.all(Array.from({ length: 12 }, () => proxy.balance()));
  expect(balances.every(({ status }) => status === 200)).toBe(true);
  expect(await proxy.transfer()).toMatchObject({ status: 200 });
  expect(await proxy.counted('signing_queue_depth')).toBe(0);
});

it('connections beyond maxConnections are closed without a response and counted, until another one ends', async () => {
  const edge = await starts.edge({ config: { proxy: { port: 0, maxConnections: 2 } } });
  const statusOver = async (connection: RawConnection): Promise<number> =>
    (await connection.send(formRequest(paths.balance)).response()).status;
  const first = await edge.connect();
  const second = await edge.connect();
  expect([await statusOver(first), await statusOver(second)]).toEqual([200, 200]);
  expect(await (await edge.connect()).ended()).toBe('FIN');
  expect(await edge.metrics()).toMatch(/^countersign_connections_dropped_total 1$/m);
  expect(await statusOver(first)).toBe(200);
  second.close();
  await until(async () => (await statusOver(await edge.connect()).catch(() => undefined)) === 200);
});

const smallest = { port: 0, maxBufferedBytes: 1_048_576, timeouts: { shutdownDelay: '0s', body: '60s' } };

/** The results of ten transfers of `modest` with a form of 3 KB, each as often as it occurs. */
async function paysAsModest(edge: Edge): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (let count = 0; count < 10; count += 1) {
    const { status, headers } = await edge.post(paths.transfer, `client_orderid=${'x'.repeat(3_000)}`);
    const result = `${status} ${String(headers['countersign-outcome'])}`;
    counts[result] = (counts[result] ?? 0) + 1;
  }
  return counts;
}

const paid = { '200 answered': 10 };

it.each([
  ['holds its own slots only: what is above its limit is rejected before it is read', 2, 'caller-limit', 198],
  ['leaves memory for the others, even without a limit', undefined, 'overloaded', 150],
] as const)('a caller with slow forms %s', async (_, maxInFlight, reason, least) => {
  const edge = await starts.edge({
    config: { proxy: smallest, callers: [{ ...greedy, maxInFlight }, modest] },
  });
  const form = formRequest(paths.transfer, `client_orderid=${'x'.repeat(2_000)}`, [
    'Authorization: Bearer greedy',
  ]);
  const slow = await Promise.all(Array.from({ length: 200 }, () => edge.connect()));
  for (const connection of slow) connection.send(form.slice(0, -1));
  await until(async () => (await edge.counted('requests_total', { reason })) >= least);
  expect(await paysAsModest(edge)).toEqual(paid);
  for (const connection of slow) connection.send('x');
  const responses = await Promise.all(slow.map((connection) => connection.response()));
  if (maxInFlight !== undefined)
    expect(responses.filter(({ status }) => status === 200)).toHaveLength(maxInFlight);
});

it('clients whose issuer is slow hold no memory of the callers, and only 100 of them wait', async () => {
  const issuer = starts.closing(await startOidcServer({ keys: [issuerKey('first')] }));
  const config: Partial<ConfigInput> = {
    proxy: smallest,
    jwtIssuers: { idp: { issuer: issuer.url, audience: 'countersign' } },
    callers: [jwtCaller('billing', { subject: 'billing' }), modest],
  };
  let skipped = 0;
  const edge = await starts.edge({ config, monotonic: () => performance.now() + skipped });
  await until(() => issuer.fetches() === 1);
  skipped = 10_000;
  issuer.rotate(issuerKey('unknown'));
  const token = await issuer.sign({ sub: 'billing' });
  const waits = Promise.withResolvers<void>();
  const { respond } = issuer;
  issuer.respond = (request, response) => void waits.promise.then(() => respond(request, response));
  const unknown = formRequest(paths.transfer, transferForm, [`Authorization: Bearer ${token}`]);
  const connections = await Promise.all(Array.from({ length: 130 }, () => edge.connect()));
  for (const connection of connections)
    connection.send(unknown + formRequest(paths.transfer, `client_orderid=${'x'.repeat(10_000)}`));
  await until(async () => (await edge.counted('requests_total', { reason: 'issuer-unavailable' })) === 30);
  expect(await paysAsModest(edge)).toEqual(paid);
  waits.resolve();
  const responses = await Promise.all(connections.map((connection) => connection.response()));
  expect(responses.filter(({ status }) => status === 200)).toHaveLength(100);
  expect(responses.filter(({ status }) => status === 503)).toHaveLength(30);
});
