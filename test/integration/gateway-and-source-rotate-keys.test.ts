import { describe, expect, it } from '@jest/globals';
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
async function askBoth(proxy: TestProxy): Promise<number[]> {
  return [(await proxy.balance()).status, (await proxy.status()).status];
}

const sourceReads = (proxy: TestProxy): Promise<number> => proxy.counted('key_fetch_duration_seconds_count');

describe('a key that is replaced costs no read a failure', () => {
  it('when the gateway knows both for a while and the source follows', async () => {
    const { proxy, accept, putInSource, simulator } = await start();
    expect(await askBoth(proxy)).toEqual([200, 200]);
    accept(oldKeys, nextKeys);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    putInSource(nextKeys);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    // The cached keys are the old ones still.
    accept(nextKeys);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    expect(simulator.seen.count({ rejection: 'signature-wrong' })).toBe(1);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    expect((await proxy.transfer()).status).toBe(200);
  });

  it('when the source has it before the gateway', async () => {
    const { proxy, accept, putInSource, simulator } = await start();
    await proxy.reload({ keys: alwaysLooking(proxy) });
    expect(await askBoth(proxy)).toEqual([200, 200]);
    putInSource(nextKeys);
    await untilKeysChange(proxy);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    const refused = simulator.seen.count({ rejection: 'signature-wrong' });
    expect(refused).toBe(2);
    expect(await proxy.counted('key_fallbacks_total', { to: 'older' })).toBe(2);
    // The accepted one is used from then on, also for what may not be sent twice.
    expect(await askBoth(proxy)).toEqual([200, 200]);
    expect((await proxy.transfer()).status).toBe(200);
    expect(simulator.seen.count({ rejection: 'signature-wrong' })).toBe(refused);
    accept(nextKeys);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    expect(await proxy.counted('key_fallbacks_total', { to: 'newer' })).toBe(2);
    expect((await proxy.transfer()).status).toBe(200);
  });

  it('also when the configuration is read again meanwhile', async () => {
    const { proxy, putInSource, simulator } = await start();
    await proxy.reload({ keys: alwaysLooking(proxy) });
    await askBoth(proxy);
    putInSource(nextKeys);
    await untilKeysChange(proxy);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    const refused = simulator.seen.count({ rejection: 'signature-wrong' });
    await proxy.reload({ keys: alwaysLooking(proxy), signing: { concurrency: 2 } });
    expect((await proxy.transfer()).status).toBe(200);
    expect(simulator.seen.count({ rejection: 'signature-wrong' })).toBe(refused);
  });

  it('also in the moment after a payment was refused for it', async () => {
    const { proxy, accept, putInSource } = await start();
    expect(await askBoth(proxy)).toEqual([200, 200]);
    putInSource(nextKeys);
    accept(nextKeys);
    expect((await proxy.transfer()).status).toBe(403);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    expect((await proxy.transfer()).status).toBe(200);
  });

  it('also when only one of the two keys is replaced', async () => {
    const { proxy, accept, putInSource, simulator } = await start();
    expect(await askBoth(proxy)).toEqual([200, 200]);
    const mixed = { controlKey: nextKeys.controlKey, privateKey: oldKeys.privateKey };
    putInSource(mixed);
    accept(mixed);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    expect(simulator.seen.count({ operation: 'order-status', rejection: 'signature-wrong' })).toBe(0);
  });
});

describe('a gateway that refuses everything', () => {
  it('gets at most one request more per step of the back-off, and so does the source', async () => {
    const { proxy, putInSource, simulator, pass } = await start();
    await proxy.balance();
    putInSource(nextKeys);
    simulator.accounts.setBlocked('acme', true);
    const before = { requests: simulator.seen.count(), reads: await sourceReads(proxy) };
    for (let turn = 0; turn < 5; turn += 1) {
      const answers = await Promise.all(Array.from({ length: 8 }, () => proxy.balance()));
      expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(403));
    }
    // The second key is tried once; until then its cached ring names the old one, after that the new one.
    expect(simulator.seen.count() - before.requests).toBeLessThanOrEqual(40 + 8);
    expect((await sourceReads(proxy)) - before.reads).toBe(1);
    const later = simulator.seen.count();
    pass(1_000);
    for (let turn = 0; turn < 10; turn += 1) await proxy.balance();
    expect(simulator.seen.count() - later).toBe(11);
    expect((await sourceReads(proxy)) - before.reads).toBe(2);
    // The second step is two seconds long for the key, one for the look.
    pass(1_000);
    for (let turn = 0; turn < 10; turn += 1) await proxy.balance();
    expect(simulator.seen.count() - later).toBe(21);
    expect((await sourceReads(proxy)) - before.reads).toBe(3);
  });

  it('gets nothing more when there is no other key', async () => {
    const { proxy, simulator } = await start();
    await proxy.balance();
    simulator.accounts.setBlocked('acme', true);
    const before = simulator.seen.count();
    for (let turn = 0; turn < 10; turn += 1) expect((await proxy.balance()).status).toBe(403);
    expect(simulator.seen.count() - before).toBe(10);
    expect(await sourceReads(proxy)).toBe(2);
    expect(
      await proxy.counted('gateway_responses_total', { operation: 'manager-balance', status: '403' }),
    ).toBe(10);
  });

  it('gets a payment once', async () => {
    const { proxy, simulator, putInSource } = await start();
    await proxy.transfer();
    putInSource(nextKeys);
    simulator.accounts.setBlocked('acme', true);
    const answer = await proxy.transfer();
    expect(answer).toMatchObject({ status: 403 });
    expect(answer.headers['countersign-outcome']).toBe('answered');
    expect(simulator.seen.count({ operation: 'transfer' })).toBe(2);
    const [, line] = await proxy.requestLines(2);
    expect(line).toMatchObject({ status: 403, outcome: 'answered', attempts: 1, rejection: 'current-key' });
  });
});

describe('payments without any read beside them', () => {
  it('go on with the key that the gateway takes while a newer one waits in the source', async () => {
    const { proxy, putInSource, accept } = await start();
    await proxy.reload({ keys: alwaysLooking(proxy) });
    expect((await proxy.transfer()).status).toBe(200);
    putInSource(nextKeys);
    await untilKeysChange(proxy, proxy.transfer);
    expect((await proxy.transfer()).status).toBe(200);
    accept(nextKeys);
    // The gateway's own change costs one payment its answer 403: it was not carried out, and is not sent twice.
    expect((await proxy.transfer()).status).toBe(403);
    expect((await proxy.transfer()).status).toBe(200);
    expect((await proxy.transfer()).status).toBe(200);
  });

  it('are refused once when the gateway changes first and knows the new key alone', async () => {
    const { proxy, putInSource, accept } = await start();
    expect((await proxy.transfer()).status).toBe(200);
    accept(nextKeys);
    putInSource(nextKeys);
    await untilKeysChange(proxy, async () => expect((await proxy.transfer()).status).toBe(403));
    expect((await proxy.transfer()).status).toBe(200);
  });
});

it('a payment is sent again after a 403 where configuration says so', async () => {
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

it('the key the gateway knows is found among several, by the first read', async () => {
  const { proxy, putInSource } = await start();
  await proxy.reload({ keys: alwaysLooking(proxy) });
  await proxy.balance();
  for (const keys of [nextKeys, third]) {
    putInSource(keys);
    await untilKeysChange(proxy);
  }
  expect((await proxy.balance()).status).toBe(200);
});

it('the key that the gateway takes out of three is found by the first read after the change', async () => {
  const { proxy, putInSource, accept } = await start();
  await proxy.reload({ keys: alwaysLooking(proxy) });
  await proxy.balance();
  for (const keys of [nextKeys, third]) {
    putInSource(keys);
    await untilKeysChange(proxy);
  }
  expect(await askBoth(proxy)).toEqual([200, 200]);
  accept(nextKeys);
  expect(await askBoth(proxy)).toEqual([200, 200]);
});
