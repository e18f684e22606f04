import { describe, expect, it } from '@jest/globals';
import { faultRule } from '../../src/simulator/faults.ts';
import { harness } from '../support/harness.ts';
import {
  alwaysLooking,
  newKeys,
  nextKeys,
  oldKeys,
  type Rotating,
  startRotating,
  untilKeysChange,
} from '../support/rotating.ts';
import { type ProxyOptions, type TestProxy } from '../support/service.ts';

const starts = harness();

const third = newKeys('a third control key');
const start = (options?: ProxyOptions): Promise<Rotating> => startRotating(starts, options);

/** Balance (HMAC) and status (RSA). */
async function queryBoth(proxy: TestProxy): Promise<number[]> {
  return [(await proxy.balance()).status, (await proxy.status()).status];
}

const sourceReads = (proxy: TestProxy): Promise<number> => proxy.counted('key_fetch_duration_seconds_count');

describe('no read fails because of a key rotation', () => {
  it('if the gateway accepts both keys for a while, and then the source has the new one', async () => {
    const { proxy, accept, putInSource, simulator } = await start();
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    accept(oldKeys, nextKeys);
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    putInSource(nextKeys);
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    // The cached keys are still the old ones.
    accept(nextKeys);
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    expect(simulator.seen.count({ rejection: 'signature-wrong' })).toBe(1);
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    expect((await proxy.transfer()).status).toBe(200);
  });

  it('if the source has the new key before the gateway', async () => {
    const { proxy, accept, putInSource, simulator } = await start();
    await proxy.reload({ keys: alwaysLooking(proxy) });
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    putInSource(nextKeys);
    await untilKeysChange(proxy);
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    const rejected = simulator.seen.count({ rejection: 'signature-wrong' });
    expect(rejected).toBe(2);
    expect(await proxy.counted('key_fallbacks_total', { to: 'older' })).toBe(2);
    // From then on the accepted one is used, also for requests that must not be sent twice.
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    expect((await proxy.transfer()).status).toBe(200);
    expect(simulator.seen.count({ rejection: 'signature-wrong' })).toBe(rejected);
    accept(nextKeys);
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    expect(await proxy.counted('key_fallbacks_total', { to: 'newer' })).toBe(2);
    expect((await proxy.transfer()).status).toBe(200);
  });

  it('if many are rejected before the first one that tries the other key has its response', async () => {
    const { proxy, accept, putInSource, simulator } = await start();
    await proxy.reload({ keys: alwaysLooking(proxy) });
    await queryBoth(proxy);
    putInSource(nextKeys);
    await untilKeysChange(proxy);
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    accept(nextKeys);
    simulator.faults.add(faultRule.parse({ delaySeconds: 0.3 }));
    const queries = await Promise.all(Array.from({ length: 5 }, () => queryBoth(proxy)));
    expect(queries.flat()).toEqual(Array(10).fill(200));
  });

  it('if the configuration is reloaded meanwhile', async () => {
    const { proxy, putInSource, simulator } = await start();
    await proxy.reload({ keys: alwaysLooking(proxy) });
    await queryBoth(proxy);
    putInSource(nextKeys);
    await untilKeysChange(proxy);
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    const rejected = simulator.seen.count({ rejection: 'signature-wrong' });
    await proxy.reload({ keys: alwaysLooking(proxy), signing: { concurrency: 2 } });
    expect((await proxy.transfer()).status).toBe(200);
    expect(simulator.seen.count({ rejection: 'signature-wrong' })).toBe(rejected);
  });

  it('right after a payment was rejected because of the key', async () => {
    const { proxy, accept, putInSource } = await start();
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    putInSource(nextKeys);
    accept(nextKeys);
    expect((await proxy.transfer()).status).toBe(403);
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    expect((await proxy.transfer()).status).toBe(200);
  });

  it('if only one of the two keys is replaced', async () => {
    const { proxy, accept, putInSource, simulator } = await start();
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    const mixed = { controlKey: nextKeys.controlKey, privateKey: oldKeys.privateKey };
    putInSource(mixed);
    accept(mixed);
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    expect(simulator.seen.count({ operation: 'order-status', rejection: 'signature-wrong' })).toBe(0);
  });
});

describe('a gateway that rejects everything', () => {
  it('gets at most one more request per step of the back-off, and so does the source', async () => {
    const { proxy, putInSource, accept, simulator, pass } = await start();
    await proxy.balance();
    putInSource(nextKeys);
    accept();
    const before = { requests: simulator.seen.count(), reads: await sourceReads(proxy) };
    for (let turn = 0; turn < 5; turn += 1) {
      const responses = await Promise.all(Array.from({ length: 8 }, () => proxy.balance()));
      expect(responses.map(({ status }) => status)).toEqual(Array(8).fill(403));
    }
    // The second key is tried once: the cached ring has the old key until then, and the new one afterwards.
    expect(simulator.seen.count() - before.requests).toBeLessThanOrEqual(40 + 8);
    // A look, and the ring with the version that it found.
    expect((await sourceReads(proxy)) - before.reads).toBe(2);
    const later = simulator.seen.count();
    pass(1_000);
    for (let turn = 0; turn < 10; turn += 1) await proxy.balance();
    expect(simulator.seen.count() - later).toBe(11);
    expect((await sourceReads(proxy)) - before.reads).toBe(3);
    // The second step is two seconds for the key, and one second for the look.
    pass(1_000);
    for (let turn = 0; turn < 10; turn += 1) await proxy.balance();
    expect(simulator.seen.count() - later).toBe(21);
    expect((await sourceReads(proxy)) - before.reads).toBe(4);
  });

  it('gets no more requests if there is no other key', async () => {
    const { proxy, accept, simulator } = await start();
    await proxy.balance();
    accept();
    const before = simulator.seen.count();
    for (let turn = 0; turn < 10; turn += 1) expect((await proxy.balance()).status).toBe(403);
    expect(simulator.seen.count() - before).toBe(10);
    expect(await sourceReads(proxy)).toBe(2);
    expect(
      await proxy.counted('gateway_responses_total', { operation: 'manager-balance', status: '403' }),
    ).toBe(10);
  });

  it('gets each payment once', async () => {
    const { proxy, accept, simulator, putInSource } = await start();
    await proxy.transfer();
    putInSource(nextKeys);
    accept();
    const response = await proxy.transfer();
    expect(response).toMatchObject({ status: 403 });
    expect(response.headers['countersign-outcome']).toBe('answered');
    expect(simulator.seen.count({ operation: 'transfer' })).toBe(2);
    const [, line] = await proxy.requestLines(2);
    expect(line).toMatchObject({ status: 403, outcome: 'answered', attempts: 1, rejection: 'current-key' });
  });
});

describe('payments without concurrent reads', () => {
  it('keep using the key that the gateway accepts while the source has a newer one', async () => {
    const { proxy, putInSource, accept } = await start();
    await proxy.reload({ keys: alwaysLooking(proxy) });
    expect((await proxy.transfer()).status).toBe(200);
    putInSource(nextKeys);
    await untilKeysChange(proxy, proxy.transfer);
    expect((await proxy.transfer()).status).toBe(200);
    accept(nextKeys);
    // At the gateway's switch one payment gets a 403: it was not processed, and is not sent twice.
    expect((await proxy.transfer()).status).toBe(403);
    expect((await proxy.transfer()).status).toBe(200);
    expect((await proxy.transfer()).status).toBe(200);
  });

  it('are rejected once if the gateway switches first and accepts only the new key', async () => {
    const { proxy, putInSource, accept } = await start();
    expect((await proxy.transfer()).status).toBe(200);
    accept(nextKeys);
    putInSource(nextKeys);
    await untilKeysChange(proxy, async () => expect((await proxy.transfer()).status).toBe(403));
    expect((await proxy.transfer()).status).toBe(200);
  });
});

it('a payment is retried after a 403 if the configuration says so', async () => {
  const { proxy, simulator, putInSource, accept } = await start({
    sandbox: { operations: { transfer: { retryOn403: true } } },
  });
  await proxy.transfer();
  putInSource(nextKeys);
  accept(nextKeys);
  expect((await proxy.transfer()).status).toBe(200);
  expect(simulator.seen.count({ operation: 'transfer' })).toBe(3);
  expect(simulator.seen.accepted({ operation: 'transfer' })).toBe(2);
  expect((await proxy.requestLines(2))[1]).toMatchObject({ attempts: 2, rejection: 'other-key' });
});

it('the first read finds the accepted key among several', async () => {
  const { proxy, putInSource } = await start();
  await proxy.reload({ keys: alwaysLooking(proxy) });
  await proxy.balance();
  for (const keys of [nextKeys, third]) {
    putInSource(keys);
    await untilKeysChange(proxy);
  }
  expect((await proxy.balance()).status).toBe(200);
});

it('the first read after the switch finds the accepted one of three keys', async () => {
  const { proxy, putInSource, accept } = await start();
  await proxy.reload({ keys: alwaysLooking(proxy) });
  await proxy.balance();
  for (const keys of [nextKeys, third]) {
    putInSource(keys);
    await untilKeysChange(proxy);
  }
  expect(await queryBoth(proxy)).toEqual([200, 200]);
  accept(nextKeys);
  expect(await queryBoth(proxy)).toEqual([200, 200]);
});
