import { createHash } from 'node:crypto';
import { utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { auditIn, recordsIn } from '../support/audit.ts';
import { everything } from '../support/config.ts';
import { paths, post } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import { testControlKey, testKeys, writeKeys } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness(afterAll);
const otherKey = 'AC5D1F6E-0000-4B8B-9E2D-key-of-the-other';
let edge: Edge;

beforeAll(async () => {
  edge = await starts.edge({
    sandbox: { endpoints: { 77: 'acme', 88: 'other' } },
    keys: { acme: testKeys, other: { controlKey: otherKey }, rsa: { privateKey: testKeys.privateKey } },
    config: { operations: { 'verify-callback': { parameters: { client_orderid: { maxLength: 40 } } } } },
  });
});
beforeEach(() => {
  edge.gateway.requests.length = 0;
});

/** As the gateway makes it: docs/gateway-interface.md section 6. */
function controlOf(status: string, orderid: string, clientOrderId: string, key = testControlKey): string {
  return createHash('sha1').update(`${status}${orderid}${clientOrderId}${key}`).digest('hex');
}

const control = controlOf('approved', '5005', 'invoice-1');
const callback = `status=approved&amount=10.42&orderid=5005&client_orderid=invoice-1&type=sale&control=${control}`;

interface Sent {
  readonly path?: string;
  readonly login?: string | undefined;
  readonly to?: Edge;
}

async function verify(form: string, { path = '', login = 'acme', to = edge }: Sent = {}) {
  const headers = path === '' ? { 'Countersign-Login': login } : {};
  const response = await post(`${to.url}/sandbox/gw/verify-callback${path}`, form, headers);
  const body: Record<string, unknown> = JSON.parse(response.body);
  return { ...response, body };
}

const resultOf = async (form: string, sent?: Sent) => (await verify(form, sent)).body['result'];

const covered = ['status', 'orderid', 'client_orderid'];

describe('a callback of the gateway', () => {
  it('is verified, with the key and what the control covers, and nothing is sent', async () => {
    const { status, headers, body } = await verify(callback);
    expect(status).toBe(200);
    expect(body).toEqual({
      result: 'verified',
      keyVersion: expect.any(Number),
      environment: 'sandbox',
      login: 'acme',
      covered,
    });
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'countersign-outcome': 'not-sent',
      'proxy-status': 'countersign',
    });
    expect(edge.gateway.requests).toEqual([]);
  });

  it.each([
    ['an upper-case control', callback.replace(control, control.toUpperCase())],
    ['the other spelling of the order ID', callback.replace('client_orderid', 'client-order-id')],
    // As the gateway signed it.
    ...['a;b=1', 'a%3Bb%3D1'].map((orderId) => {
      const made = controlOf('approved', '5005', 'a;b=1');
      return [
        'a ";" in a value',
        `status=approved&orderid=5005&client_orderid=${orderId}&descriptor=x;y&control=${made}`,
      ] as const;
    }),
    // docs/payments.md tells a service what follows.
    ['another amount, which the control does not cover', callback.replace('10.42', '10000.00')],
    [
      'digits shifted between two parameters that it covers',
      `status=approved&orderid=500&client_orderid=51&control=${controlOf('approved', '5005', '1')}`,
    ],
  ])('is verified, each time, with %s', async (_, form) => {
    for (let time = 0; time < 2; time += 1) expect(await resultOf(form)).toBe('verified');
  });

  it.each([
    ['the endpoint', '/77'],
    ['the path', '/login/acme'],
  ])('has the login of %s', async (_, path) => {
    expect((await verify(callback, { path })).body).toMatchObject({ result: 'verified', login: 'acme' });
  });

  it('never has the login of a posted parameter', async () => {
    expectProblem(
      await edge.send(formRequest('/sandbox/gw/verify-callback', `${callback}&login=acme`)),
      'login-missing',
    );
    const forged = `${callback.replace(control, controlOf('approved', '5005', 'invoice-1', otherKey))}&login=other`;
    expect((await verify(forged)).body).toMatchObject({ result: 'not-verified', login: 'acme', covered });
  });

  it('gets key-missing if the login has no control key', async () => {
    for (const login of ['rsa', 'nobody']) {
      const { status, body } = await verify(callback, { login });
      expect(status).toBe(200);
      expect(body).toEqual({ result: 'key-missing', environment: 'sandbox', login, covered });
    }
  });
});

describe('a callback that the gateway did not make is not verified', () => {
  const without = (name: string): string => callback.replace(new RegExp(`(^|&)${name}=[^&]*`), '');

  it('whatever differs, and all wait for one look at the keys', async () => {
    const withControl = (other: string) => callback.replace(control, other);
    const forged = [
      callback.replace('approved', 'declined'),
      callback.replace('5005', '5006'),
      callback.replace('invoice-1', 'invoice-2'),
      withControl(control.slice(0, 20)),
      withControl(`${control}0`),
      withControl(`%00${control.slice(1)}`),
      ...['', otherKey].map((key) => withControl(controlOf('approved', '5005', 'invoice-1', key))),
    ];
    const detail = /replaced longer ago than keys\.rotationGracePeriod.*query the status/;
    const body = { result: 'not-verified', environment: 'sandbox', login: 'acme', covered };
    for (const verified of await Promise.all(forged.map((form) => verify(form))))
      expect(verified).toMatchObject({
        status: 200,
        body: { ...body, detail: expect.stringMatching(detail) },
      });
  });

  const lookAlike = /could be taken for one that the control covers/;
  it.each([
    ['cut off before the control', callback.slice(0, callback.indexOf('&control')), /"control" is required/],
    ['without a status', without('status'), /"status" is required/],
    ['with an empty order', callback.replace('5005', ''), /"orderid" is required/],
    ['with two statuses', `${callback}&status=approved`, /"status" appears 2 times/],
    ['with two controls', `${callback}&control=${control}`, /"control" appears 2 times/],
    ['with two spellings of the order', `${callback}&client-order-id=invoice-2`, /are different/],
    ['with another parameter twice', `${callback}&amount=0.01`, /appears more than once/],
    ...['Status', '+status', '[[status', 'status%00x', 'client.orderid', 'client[orderid%00x', 'CONTROL'].map(
      (name) =>
        [`with a name like a covered one: ${name}`, `${callback}&${name}=approved`, lookAlike] as const,
    ),
    ['with a covered name after a ";"', `${callback}&a=1;status=declined`, lookAlike],
    ['with a covered name between two', callback.replace('10.42', '1;Status=declined;b'), lookAlike],
    ['with a ";" a thousand times', `${callback}&a=${';'.repeat(1_000)}`, /1000 ";" or more/],
    ['against a rule of the configuration', callback.replace('invoice-1', 'i'.repeat(41)), /more than 40/],
  ])('%s: 400', async (_, form, detail) => {
    const response = await edge.send(
      formRequest('/sandbox/gw/verify-callback', form, ['Countersign-Login: acme']),
    );
    expect(String(expectProblem(response, 'parameter-invalid')['detail'])).toMatch(detail);
  });
});

it('what its control covers, and what of it may be absent, is configuration', async () => {
  const other = await starts.edge({
    sandbox: {
      operations: {
        'verify-callback': {
          control: ['login', 'status', 'amount', 'client_orderid'],
          parameters: {
            amount: { minorUnitsOf: 'currency' },
            currency: { required: true },
            client_orderid: { required: false },
          },
        },
      },
    },
  });
  const made = createHash('sha1').update(`acmeapproved1042${testControlKey}`).digest('hex');
  const form = `status=approved&amount=10.42&currency=EUR&control=${made}`;
  const sent = { path: '/login/acme', to: other };
  expect((await verify(form, sent)).body).toMatchObject({
    result: 'verified',
    covered: ['status', 'amount', 'client_orderid'],
  });
  expect(await resultOf(form.replace('10.42', '10.43'), sent)).toBe('not-verified');
});

it('each key of the ring counts, also one that was just stored, and none that has left it', async () => {
  const folder = starts.folder();
  writeKeys(folder.path, 'sandbox', 'acme', testKeys);
  const keys = { source: 'directory' as const, directory: folder.path, rotationGracePeriod: '2s' };
  const to = await starts.edge({ config: { keys } });
  const next = callback.replace(control, controlOf('approved', '5005', 'invoice-1', 'the next key'));
  expect(await resultOf(next, { to })).toBe('not-verified');
  expect(await resultOf(callback, { to })).toBe('verified');
  const file = folder.at(join('sandbox', 'acme', 'control_key'));
  writeFileSync(file, 'the next key');
  const later = Math.floor(Date.now() / 1000) + 5;
  utimesSync(file, later, later);
  await until(async () => (await resultOf(next, { to })) === 'verified', 'it is looked for');
  expect((await verify(next, { to })).body).toMatchObject({ keyVersion: later });
  expect(await resultOf(callback, { to })).toBe('verified');
  await until(async () => (await resultOf(callback, { to })) === 'not-verified', 'the end of the grace');
  expect(await to.counted('key_fallbacks_total')).toBe(0);
});

it('forged callbacks, which wait for a new key, take no slot of the caller', async () => {
  const credentials = [{ anonymous: true as const }];
  const shop = { name: 'shop', maxInFlight: 2, credentials, allow: [everything] };
  const to = await starts.edge({ config: { callers: [shop] } });
  const forged = callback.replace('approved', 'declined');
  await resultOf(forged, { to });
  const waiting: ReturnType<typeof resultOf>[] = [];
  for (let nth = 0; nth < 4; nth += 1) {
    waiting.push(resultOf(forged, { to }));
    await setTimeout(50);
  }
  expect(await resultOf(callback, { to })).toBe('verified');
  expect((await to.post(paths.transfer, 'client_orderid=a-1')).status).toBe(200);
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(['not-verified']));
});

it('it is counted, logged and in the audit trail, without control or key', async () => {
  const audit = auditIn(starts.folder());
  const proxy = await starts.edge({ config: { audit } });
  const forged = callback.replace('approved', 'declined');
  for (const form of [callback, forged]) await verify(form, { to: proxy });
  const lines = await proxy.requestLines(2);
  expect(lines).toMatchObject([
    { operation: 'verify-callback', login: 'acme', callback: 'verified', outcome: 'not-sent', level: 'info' },
    { operation: 'verify-callback', login: 'acme', callback: 'not-verified', status: 200, level: 'warn' },
  ]);
  expect(lines[0]).toHaveProperty('keyVersion');
  for (const result of ['verified', 'not-verified'])
    expect(await proxy.counted('callbacks_total', { environment: 'sandbox', result })).toBe(1);
  await proxy.statusPages();
  await proxy.stop();
  const trail = recordsIn(audit.directory);
  expect(trail.filter(({ audit }) => audit === 'callback')).toMatchObject([
    { environment: 'sandbox', login: 'acme', callback: 'verified', keyKind: 'control_key' },
    { environment: 'sandbox', login: 'acme', callback: 'not-verified' },
  ]);
  const expected = controlOf('declined', '5005', 'invoice-1');
  for (const text of [proxy.seen(), JSON.stringify(trail)])
    for (const secret of [control, expected, testControlKey]) expect(text).not.toContain(secret);
});
