import { expect, it } from '@jest/globals';
import { harness } from '../support/harness.ts';
import {
  alwaysLooking,
  nextKeys,
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

it('no query fails if the source has the new key first; the gateway sees no other signature until it switches', async () => {
  const { proxy, accept, putInSource, simulator } = await start();
  const wrong = (): number => simulator.seen.count({ rejection: 'signature-wrong' });
  await proxy.reload({ keys: alwaysLooking(proxy) });
  expect(await queryBoth(proxy)).toEqual([200, 200]);
  putInSource(nextKeys);
  await untilKeysChange(proxy);
  expect(await queryBoth(proxy)).toEqual([200, 200]);
  expect((await proxy.transfer()).status).toBe(200);
  expect(wrong()).toBe(0);
  accept(nextKeys);
  expect(await queryBoth(proxy)).toEqual([200, 200]);
  expect(await proxy.counted('key_fallbacks_total', { to: 'newer' })).toBe(2);
  expect((await proxy.transfer()).status).toBe(200);
  expect(wrong()).toBe(2);
});

it('a gateway that rejects everything gets one more request per step, and the source one look a second', async () => {
  const { proxy, putInSource, accept, simulator, pass } = await start();
  const sourceReads = (): Promise<number> => proxy.counted('key_fetch_duration_seconds_count');
  await proxy.status();
  putInSource(nextKeys);
  pass(60_000);
  await untilKeysChange(proxy);
  accept();
  const [before, requests] = [await sourceReads(), [] as number[]];
  for (let second = 0; second < 8; second += 1) {
    const sent = simulator.seen.count();
    expect((await proxy.balance()).status).toBe(403);
    requests.push(simulator.seen.count() - sent);
    pass(1_000);
  }
  // The steps are one, two and four seconds.
  expect(requests).toEqual([2, 2, 1, 2, 1, 1, 1, 2]);
  expect((await sourceReads()) - before).toBe(8);
});

it('a payment is sent once, and rejected once if the gateway switches first and there are no queries', async () => {
  const { proxy, putInSource, accept, simulator } = await start();
  expect((await proxy.transfer()).status).toBe(200);
  accept(nextKeys);
  putInSource(nextKeys);
  await untilKeysChange(proxy, async () =>
    expect(await proxy.transfer()).toMatchObject({
      status: 403,
      headers: { 'countersign-outcome': 'answered' },
    }),
  );
  expect((await proxy.transfer()).status).toBe(200);
  expect(simulator.seen.count({ operation: 'transfer' })).toBe(3);
  const [, line] = await proxy.requestLines(3);
  expect(line).toMatchObject({ status: 403, outcome: 'answered', attempts: 1, rejection: 'current-key' });
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
