import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { afterEach, expect, it } from '@jest/globals';
import { Secret } from '../../src/secret.ts';
import type { ListeningSimulator } from '../../src/simulator/listen.ts';
import { counted, exchanges, paths, post, transfer, transferForm, until } from '../support/forwarding.ts';
import {
  type ProxyOptions,
  startProxy,
  type TestKeys,
  type TestProxy,
  writeKeys,
} from '../support/service.ts';
import { noon, startSimulator } from '../support/simulator.ts';

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

function newKeys(controlKey: string): Required<TestKeys> {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { controlKey, privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }) };
}

const old = newKeys('the old control key');
const next = newKeys('the next control key');
const eligibility = paths.transfer.replace('v4/transfer', 'v2/pan-eligibility/send');

interface Rotating {
  readonly simulator: ListeningSimulator['simulator'];
  readonly proxy: TestProxy;
  /** From now on the gateway accepts only this. */
  readonly accept: (keys: Required<TestKeys>) => void;
  readonly pass: (milliseconds: number) => void;
}

/** Both keys are in the ring, and the gateway accepts the old one. One transfer was sent before. */
async function rotating(options: Partial<ProxyOptions> = {}, canary = true): Promise<Rotating> {
  let now = noon;
  const clock = (): number => now;
  const gatewayKeys = ({ controlKey, privateKey }: Required<TestKeys>) => ({
    controlKeys: [new Secret(controlKey)],
    publicKeys: [createPublicKey(privateKey)],
  });
  const { url, simulator, close } = await startSimulator({
    clock,
    keys: new Map([['acme', gatewayKeys(old)]]),
  });
  const monotonic = (): number => performance.now() + now - noon;
  const proxy = await startProxy({ gateway: url, clock, monotonic, keys: { acme: old }, ...options });
  stops.push(close, () => proxy.stop());
  await proxy.reload({
    keys: { source: 'directory', directory: proxy.keysFolder, cache: { ttl: '0ms' }, rotation: { canary } },
  });
  const send = () => post(`${proxy.url}${paths.transfer}`, transferForm, { 'Countersign-Login': 'acme' });
  await send();
  await post(`${proxy.url}${eligibility}`, '', { 'Countersign-Login': 'acme' });
  writeKeys(proxy.keysFolder, 'sandbox', 'acme', next);
  const changes = (): number => proxy.logLines().filter(({ msg }) => msg === 'keys updated').length;
  const before = changes();
  await send();
  await until(() => changes() > before);
  return {
    simulator,
    proxy,
    accept: (keys) => simulator.accounts.setKeys('acme', gatewayKeys(keys)),
    pass: (milliseconds) => {
      now += milliseconds;
    },
  };
}

const canaries = (proxy: TestProxy, result: string): Promise<number> =>
  counted(proxy, 'key_canaries_total', { result });

it('a payment fails at the switch without a canary, and succeeds with one', async () => {
  for (const [canary, status] of [
    [false, 403],
    [true, 200],
  ] as const) {
    const { proxy, accept, pass } = await rotating({}, canary);
    expect((await transfer(proxy)).status).toBe(200);
    accept(next);
    pass(501);
    expect((await transfer(proxy)).status).toBe(status);
    expect((await transfer(proxy)).status).toBe(200);
    expect(await canaries(proxy, 'accepted')).toBe(canary ? 1 : 0);
    expect(await canaries(proxy, 'switched')).toBe(canary ? 1 : 0);
  }
});

it('a payment with a control key follows a balance query', async () => {
  const { proxy, accept, simulator } = await rotating();
  accept(next);
  const sent = await post(`${proxy.url}${eligibility}`, '');
  expect(sent.status).toBe(200);
  expect(simulator.seen.count({ operation: 'manager-balance' })).toBe(2);
  expect(simulator.seen.count({ operation: 'pan-eligibility-send' })).toBe(2);
});

it('payments follow one canary in 500 ms, and wait for the one in flight', async () => {
  const { proxy, simulator, pass } = await rotating();
  await Promise.all(Array.from({ length: 5 }, () => transfer(proxy)));
  await transfer(proxy);
  expect(simulator.seen.count({ operation: 'order-status' })).toBe(1);
  pass(501);
  await transfer(proxy);
  expect(simulator.seen.count({ operation: 'order-status' })).toBe(2);
});

it('payments need no canary once the gateway has accepted the latest key', async () => {
  const { proxy, accept, simulator, pass } = await rotating();
  accept(next);
  await transfer(proxy);
  const seen = simulator.seen.count({ operation: 'order-status' });
  pass(501);
  await transfer(proxy);
  expect(simulator.seen.count({ operation: 'order-status' })).toBe(seen);
});

it('a canary that is rejected with every key does not change the key of payments', async () => {
  const { proxy, simulator, pass } = await rotating();
  simulator.accounts.setBlocked('acme', true);
  expect((await transfer(proxy)).status).toBe(403);
  expect(await canaries(proxy, 'rejected')).toBe(1);
  simulator.accounts.setBlocked('acme', false);
  pass(501);
  expect((await transfer(proxy)).status).toBe(200);
});

it('a canary for an RSA key needs an endpoint of the login or of the environment', async () => {
  const without = await rotating({ sandbox: { endpoints: {} } });
  await post(`${without.proxy.url}${paths.transfer}`, transferForm, { 'Countersign-Login': 'acme' });
  expect(without.simulator.seen.count({ operation: 'order-status' })).toBe(0);
  const withOne = await rotating({ sandbox: { endpoints: {}, canaryEndpoint: '77' } });
  await post(`${withOne.proxy.url}${paths.transfer}`, transferForm, { 'Countersign-Login': 'acme' });
  expect(withOne.simulator.seen.count({ operation: 'order-status' })).toBe(1);
});

it('a canary has no access line: one line in the log for a payment', async () => {
  const { proxy } = await rotating();
  await transfer(proxy);
  const lines = await exchanges(proxy, 4);
  expect(lines.filter(({ operation }) => operation === 'order-status')).toEqual([]);
});
