import { expect, it } from '@jest/globals';
import { paths, transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import {
  alwaysLooking,
  nextKeys,
  oldKeys,
  type Rotating,
  startRotating,
  untilKeysChange,
} from '../support/rotating.ts';
import { type ProxyOptions, type TestProxy } from '../support/service.ts';

const starts = harness();

const eligibility = paths.transfer.replace('v4/transfer', 'v2/pan-eligibility/send');
const asAcme = { 'Countersign-Login': 'acme' };

/** Both keys are in the ring, and the gateway accepts the old one. One transfer was sent before. */
async function rotating(options: ProxyOptions = {}, canary = true): Promise<Rotating> {
  const started = await startRotating(starts, options);
  const { proxy, putInSource } = started;
  await proxy.reload({ keys: { ...alwaysLooking(proxy), rotation: { canary } } });
  const send = () => proxy.post(paths.transfer, transferForm, asAcme);
  await send();
  await proxy.post(eligibility, '', asAcme);
  putInSource(nextKeys);
  await untilKeysChange(proxy, send);
  return started;
}

const canaries = (proxy: TestProxy, result: string): Promise<number> =>
  proxy.counted('key_canaries_total', { result });

it('a payment fails at the switch without a canary, and succeeds with one', async () => {
  for (const [canary, status] of [
    [false, 403],
    [true, 200],
  ] as const) {
    const { proxy, accept, pass } = await rotating({}, canary);
    expect((await proxy.transfer()).status).toBe(200);
    accept(nextKeys);
    pass(501);
    expect((await proxy.transfer()).status).toBe(status);
    expect((await proxy.transfer()).status).toBe(200);
    expect(await canaries(proxy, 'accepted')).toBe(canary ? 1 : 0);
    expect(await canaries(proxy, 'switched')).toBe(canary ? 1 : 0);
  }
});

it('a payment with a control key follows a balance query', async () => {
  const { proxy, accept, simulator } = await rotating();
  accept(nextKeys);
  const sent = await proxy.post(eligibility, '');
  expect(sent.status).toBe(200);
  expect(simulator.seen.count({ operation: 'manager-balance' })).toBe(2);
  expect(simulator.seen.count({ operation: 'pan-eligibility-send' })).toBe(2);
});

it('payments follow one canary in 500 ms, and wait for the one in flight', async () => {
  const { proxy, simulator, pass } = await rotating();
  await Promise.all(Array.from({ length: 5 }, () => proxy.transfer()));
  await proxy.transfer();
  expect(simulator.seen.count({ operation: 'order-status' })).toBe(1);
  pass(501);
  await proxy.transfer();
  expect(simulator.seen.count({ operation: 'order-status' })).toBe(2);
});

it('payments need no canary once the gateway has accepted the latest key', async () => {
  const { proxy, accept, simulator, pass } = await rotating();
  accept(nextKeys);
  await proxy.transfer();
  const seen = simulator.seen.count({ operation: 'order-status' });
  pass(501);
  await proxy.transfer();
  expect(simulator.seen.count({ operation: 'order-status' })).toBe(seen);
});

it('a canary that is rejected with every key does not change the key of payments', async () => {
  const { proxy, accept, pass } = await rotating();
  accept();
  expect((await proxy.transfer()).status).toBe(403);
  expect(await canaries(proxy, 'rejected')).toBe(1);
  accept(oldKeys);
  pass(501);
  expect((await proxy.transfer()).status).toBe(200);
});

it('a canary for an RSA key needs an endpoint of the login or of the environment', async () => {
  const without = await rotating({ sandbox: { endpoints: {} } });
  await without.proxy.post(paths.transfer, transferForm, asAcme);
  expect(without.simulator.seen.count({ operation: 'order-status' })).toBe(0);
  const withOne = await rotating({ sandbox: { endpoints: {}, canaryEndpoint: '77' } });
  await withOne.proxy.post(paths.transfer, transferForm, asAcme);
  expect(withOne.simulator.seen.count({ operation: 'order-status' })).toBe(1);
});

it('a canary has no access line: one line in the log for a payment', async () => {
  const { proxy } = await rotating();
  await proxy.transfer();
  const lines = await proxy.requestLines(4);
  expect(lines.filter(({ operation }) => operation === 'order-status')).toEqual([]);
});
