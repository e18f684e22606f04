import { describe, expect, it } from '@jest/globals';
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

const start = (options?: ProxyOptions): Promise<Rotating> => startRotating(starts, options);

/** Balance (HMAC) and status (RSA). */
async function queryBoth(proxy: TestProxy): Promise<number[]> {
  return [(await proxy.balance()).status, (await proxy.status()).status];
}

const wrong = ({ seen }: Rotating['simulator']): number => seen.count({ rejection: 'signature-wrong' });
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
    expect(wrong(simulator)).toBe(2);
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    expect((await proxy.transfer()).status).toBe(200);
    expect(wrong(simulator)).toBe(2);
  });

  it('if the source has the new key before the gateway, which sees no other signature until it switches', async () => {
    const { proxy, accept, putInSource, simulator } = await start();
    await proxy.reload({ keys: alwaysLooking(proxy) });
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    putInSource(nextKeys);
    await untilKeysChange(proxy);
    await proxy.reload({ keys: alwaysLooking(proxy), signing: { concurrency: 2 } });
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    expect((await proxy.transfer()).status).toBe(200);
    expect(wrong(simulator)).toBe(0);
    accept(nextKeys);
    expect(await queryBoth(proxy)).toEqual([200, 200]);
    expect(wrong(simulator)).toBe(2);
    expect(await proxy.counted('key_fallbacks_total', { to: 'newer' })).toBe(2);
    expect((await proxy.transfer()).status).toBe(200);
    expect(wrong(simulator)).toBe(2);
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
  it('gets one more request per step, and the source one look a second', async () => {
    const { proxy, putInSource, accept, simulator, pass } = await start();
    await proxy.status();
    putInSource(nextKeys);
    pass(60_000);
    await untilKeysChange(proxy);
    accept();
    const [before, requests] = [await sourceReads(proxy), [] as number[]];
    for (let second = 0; second < 8; second += 1) {
      const sent = simulator.seen.count();
      expect((await proxy.balance()).status).toBe(403);
      requests.push(simulator.seen.count() - sent);
      pass(1_000);
    }
    // The steps are one, two and four seconds.
    expect(requests).toEqual([2, 2, 1, 2, 1, 1, 1, 2]);
    expect((await sourceReads(proxy)) - before).toBe(8);
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

it('payments without concurrent reads are rejected once if the gateway switches first and accepts only the new key', async () => {
  const { proxy, putInSource, accept } = await start();
  expect((await proxy.transfer()).status).toBe(200);
  accept(nextKeys);
  putInSource(nextKeys);
  await untilKeysChange(proxy, async () => expect((await proxy.transfer()).status).toBe(403));
  expect((await proxy.transfer()).status).toBe(200);
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
