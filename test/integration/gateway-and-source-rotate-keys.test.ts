import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Secret } from '../../src/secret.ts';
import type { ListeningSimulator } from '../../src/simulator/listen.ts';
import { askBalance, askStatus, counted, exchanges, transfer, until } from '../support/forwarding.ts';
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
const third = newKeys('a third control key');

const gatewayKeysOf = (...keys: Required<TestKeys>[]) => ({
  controlKeys: keys.map(({ controlKey }) => new Secret(controlKey)),
  publicKeys: keys.map(({ privateKey }) => createPublicKey(privateKey)),
});

interface Rotating {
  readonly simulator: ListeningSimulator['simulator'];
  readonly proxy: TestProxy;
  /** The gateway accepts these from now on, and no others. */
  readonly accept: (...keys: Required<TestKeys>[]) => void;
  /** The source has these from now on. */
  readonly putInSource: (keys: TestKeys) => void;
  /** Lets time pass; the clocks of proxy and gateway stay together. */
  readonly pass: (milliseconds: number) => void;
}

async function start(options: Partial<ProxyOptions> = {}): Promise<Rotating> {
  let now = noon;
  const clock = (): number => now;
  const { url, simulator, close } = await startSimulator({
    clock,
    keys: new Map([['acme', gatewayKeysOf(old)]]),
  });
  const monotonic = (): number => performance.now() + now - noon;
  const proxy = await startProxy({ gateway: url, clock, monotonic, keys: { acme: old }, ...options });
  stops.push(close, () => proxy.stop());
  return {
    simulator,
    proxy,
    accept: (...keys) => simulator.accounts.setKeys('acme', gatewayKeysOf(...keys)),
    putInSource: (keys) => writeKeys(proxy.keysFolder, 'sandbox', 'acme', keys),
    pass: (milliseconds) => {
      now += milliseconds;
    },
  };
}

/** Balance (HMAC) and status (RSA). */
async function askBoth(proxy: TestProxy): Promise<number[]> {
  return [(await askBalance(proxy)).status, (await askStatus(proxy)).status];
}

const sourceReads = (proxy: TestProxy): Promise<number> => counted(proxy, 'key_fetch_duration_seconds_count');

describe('a key that is replaced costs no read a failure', () => {
  it('when the gateway knows both for a while and the source follows', async () => {
    const { proxy, accept, putInSource, simulator } = await start();
    expect(await askBoth(proxy)).toEqual([200, 200]);
    accept(old, next);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    putInSource(next);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    // The cached keys are the old ones still.
    accept(next);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    expect(simulator.seen.count({ rejection: 'signature-wrong' })).toBe(1);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    expect((await transfer(proxy)).status).toBe(200);
  });

  it('when the source has it before the gateway', async () => {
    const { proxy, accept, putInSource, simulator } = await start();
    await proxy.reload({ keys: alwaysLooking(proxy) });
    expect(await askBoth(proxy)).toEqual([200, 200]);
    putInSource(next);
    await untilKeysChange(proxy);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    const refused = simulator.seen.count({ rejection: 'signature-wrong' });
    expect(refused).toBe(2);
    expect(await counted(proxy, 'key_fallbacks_total', { to: 'older' })).toBe(2);
    // The accepted one is used from then on, also for what may not be sent twice.
    expect(await askBoth(proxy)).toEqual([200, 200]);
    expect((await transfer(proxy)).status).toBe(200);
    expect(simulator.seen.count({ rejection: 'signature-wrong' })).toBe(refused);
    accept(next);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    expect(await counted(proxy, 'key_fallbacks_total', { to: 'newer' })).toBe(2);
    expect((await transfer(proxy)).status).toBe(200);
  });

  it('also when the configuration is read again meanwhile', async () => {
    const { proxy, putInSource, simulator } = await start();
    await proxy.reload({ keys: alwaysLooking(proxy) });
    await askBoth(proxy);
    putInSource(next);
    await untilKeysChange(proxy);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    const refused = simulator.seen.count({ rejection: 'signature-wrong' });
    await proxy.reload({ keys: alwaysLooking(proxy), signing: { concurrency: 2 } });
    expect((await transfer(proxy)).status).toBe(200);
    expect(simulator.seen.count({ rejection: 'signature-wrong' })).toBe(refused);
  });

  it('also in the moment after a payment was refused for it', async () => {
    const { proxy, accept, putInSource } = await start();
    expect(await askBoth(proxy)).toEqual([200, 200]);
    putInSource(next);
    accept(next);
    expect((await transfer(proxy)).status).toBe(403);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    expect((await transfer(proxy)).status).toBe(200);
  });

  it('also when only one of the two keys is replaced', async () => {
    const { proxy, accept, putInSource, simulator } = await start();
    expect(await askBoth(proxy)).toEqual([200, 200]);
    const mixed = { controlKey: next.controlKey, privateKey: old.privateKey };
    putInSource(mixed);
    accept(mixed);
    expect(await askBoth(proxy)).toEqual([200, 200]);
    expect(simulator.seen.count({ operation: 'order-status', rejection: 'signature-wrong' })).toBe(0);
  });
});

describe('a gateway that refuses everything', () => {
  it('gets at most one request more per step of the back-off, and so does the source', async () => {
    const { proxy, putInSource, simulator, pass } = await start();
    await askBalance(proxy);
    putInSource(next);
    simulator.accounts.setBlocked('acme', true);
    const before = { requests: simulator.seen.count(), reads: await sourceReads(proxy) };
    for (let turn = 0; turn < 5; turn += 1) {
      const answers = await Promise.all(Array.from({ length: 8 }, () => askBalance(proxy)));
      expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(403));
    }
    // The second key is tried once; until then its cached ring names the old one, after that the new one.
    expect(simulator.seen.count() - before.requests).toBeLessThanOrEqual(40 + 8);
    expect((await sourceReads(proxy)) - before.reads).toBe(1);
    const later = simulator.seen.count();
    pass(1_000);
    for (let turn = 0; turn < 10; turn += 1) await askBalance(proxy);
    expect(simulator.seen.count() - later).toBe(11);
    expect((await sourceReads(proxy)) - before.reads).toBe(2);
    // The second step is two seconds long for the key, one for the look.
    pass(1_000);
    for (let turn = 0; turn < 10; turn += 1) await askBalance(proxy);
    expect(simulator.seen.count() - later).toBe(21);
    expect((await sourceReads(proxy)) - before.reads).toBe(3);
  });

  it('gets nothing more when there is no other key', async () => {
    const { proxy, simulator } = await start();
    await askBalance(proxy);
    simulator.accounts.setBlocked('acme', true);
    const before = simulator.seen.count();
    for (let turn = 0; turn < 10; turn += 1) expect((await askBalance(proxy)).status).toBe(403);
    expect(simulator.seen.count() - before).toBe(10);
    expect(await sourceReads(proxy)).toBe(2);
    expect(
      await counted(proxy, 'gateway_responses_total', { operation: 'manager-balance', status: '403' }),
    ).toBe(10);
  });

  it('gets a payment once', async () => {
    const { proxy, simulator, putInSource } = await start();
    await transfer(proxy);
    putInSource(next);
    simulator.accounts.setBlocked('acme', true);
    const answer = await transfer(proxy);
    expect(answer).toMatchObject({ status: 403 });
    expect(answer.headers['countersign-outcome']).toBe('answered');
    expect(simulator.seen.count({ operation: 'transfer' })).toBe(2);
    const [, line] = await exchanges(proxy, 2);
    expect(line).toMatchObject({ status: 403, outcome: 'answered', attempts: 1, rejection: 'current-key' });
  });
});

describe('payments without any read beside them', () => {
  it('go on with the key that the gateway takes while a newer one waits in the source', async () => {
    const { proxy, putInSource, accept } = await start();
    await proxy.reload({ keys: alwaysLooking(proxy) });
    expect((await transfer(proxy)).status).toBe(200);
    putInSource(next);
    await untilKeysChange(proxy, transfer);
    expect((await transfer(proxy)).status).toBe(200);
    accept(next);
    // The gateway's own change costs one payment its answer 403: it was not carried out, and is not sent twice.
    expect((await transfer(proxy)).status).toBe(403);
    expect((await transfer(proxy)).status).toBe(200);
    expect((await transfer(proxy)).status).toBe(200);
  });

  it('are refused once when the gateway changes first and knows the new key alone', async () => {
    const { proxy, putInSource, accept } = await start();
    expect((await transfer(proxy)).status).toBe(200);
    accept(next);
    putInSource(next);
    await untilKeysChange(proxy, async () => expect((await transfer(proxy)).status).toBe(403));
    expect((await transfer(proxy)).status).toBe(200);
  });
});

it('a payment is sent again after a 403 where configuration says so', async () => {
  const { proxy, simulator, putInSource, accept } = await start({
    sandbox: { operations: { transfer: { retryOn403: true } } },
  });
  await transfer(proxy);
  putInSource(next);
  accept(next);
  expect((await transfer(proxy)).status).toBe(200);
  expect(simulator.seen.count({ operation: 'transfer' })).toBe(3);
  expect(simulator.seen.accepted({ operation: 'transfer' })).toBe(2);
  expect((await exchanges(proxy, 2))[1]).toMatchObject({ attempts: 2, rejection: 'other-key' });
});

it('the key the gateway knows is found among several, by the first read', async () => {
  const { proxy, putInSource } = await start();
  await proxy.reload({ keys: alwaysLooking(proxy) });
  await askBalance(proxy);
  for (const keys of [next, third]) {
    putInSource(keys);
    await untilKeysChange(proxy);
  }
  expect((await askBalance(proxy)).status).toBe(200);
});

it('the key that the gateway takes out of three is found by the first read after the change', async () => {
  const { proxy, putInSource, accept } = await start();
  await proxy.reload({ keys: alwaysLooking(proxy) });
  await askBalance(proxy);
  for (const keys of [next, third]) {
    putInSource(keys);
    await untilKeysChange(proxy);
  }
  expect(await askBoth(proxy)).toEqual([200, 200]);
  accept(next);
  expect(await askBoth(proxy)).toEqual([200, 200]);
});

/** Every request makes the cache look at the source, in the background. */
const alwaysLooking = (proxy: TestProxy) =>
  ({ source: 'directory', directory: proxy.keysFolder, cache: { ttl: '0ms' } }) as const;

/** One more request with the keys that are held; in the background the source is looked at. */
async function untilKeysChange(
  proxy: TestProxy,
  ask: (proxy: TestProxy) => Promise<unknown> = askStatus,
): Promise<void> {
  const changes = (): number => proxy.logLines().filter(({ msg }) => msg === 'keys updated').length;
  const before = changes();
  await ask(proxy);
  await until(() => changes() > before);
}
