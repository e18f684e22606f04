import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { SignRemotely } from '../../../src/keys/key-source.ts';
import type { TransitKey } from '../../../src/keys/ring.ts';
import type { SigningKey } from '../../../src/oauth1/methods.ts';
import { createPrometheus } from '../../../src/observability/prometheus.ts';
import { type Signee, SigningPool } from '../../../src/proxy/signing-pool.ts';
import { Secret } from '../../../src/secret.ts';
import { routesOf } from '../../support/routes.ts';
import { privateKeyOf, publicKeyOf } from '../../support/vectors.ts';
import { endsOf } from '../../support/virtual-clock.ts';

const rsa: SigningKey = { kind: 'private_key', privateKey: privateKeyOf('rsa-2048-pkcs8.pem') };
const hmac: SigningKey = { kind: 'control_key', secret: new Secret('control key') };

const acme = { login: { environment: 'sandbox', login: 'acme' }, caller: 'shop' };

const text = 'a base string';

let depths: number[];
let signed: string[];
let metrics: ReturnType<typeof createPrometheus>;
beforeEach(() => {
  [depths, signed] = [[], []];
  metrics = {
    ...createPrometheus({ version: '0', routes: routesOf() }),
    signingQueueChanged: (depth) => void depths.push(depth),
    signed: (method) => void signed.push(method),
  };
});

it('RSA signatures are rejected immediately if the queue is full, of which one caller has half', async () => {
  const signer = new SigningPool({ concurrency: 1, maxQueue: 2 }, metrics, () => performance.now());
  const callers = ['shop', 'shop', 'shop', 'other', 'other'];
  const all = callers.map((caller) => signer.sign('RSA-SHA256', text, rsa, { ...acme, caller }));
  const results = await Promise.allSettled(all);
  const [done, rejected] = ['fulfilled', 'rejected'];
  expect(results.map(({ status }) => status)).toEqual([done, done, rejected, done, rejected]);
  expect(results[4]).toMatchObject({ reason: { reason: 'overloaded', headers: { 'Retry-After': '1' } } });
  // Two begin to wait; the first and the second one that end let one go on each.
  expect(depths).toEqual([1, 2, 1, 0]);
  expect(signed).toEqual(Array(3).fill('RSA-SHA256'));
});

it('the time of a signature is reported in seconds, with its queue', async () => {
  let now = 0;
  const times: [method: string, seconds: number][] = [];
  const signer = new SigningPool(
    { concurrency: 1, maxQueue: 2 },
    { ...metrics, signed: (method, seconds) => void times.push([method, seconds]) },
    () => now,
  );
  const all = [rsa, rsa, hmac].map((key) =>
    signer.sign(key === hmac ? 'HMAC-SHA1' : 'RSA-SHA256', text, key, acme),
  );
  now = 250;
  await Promise.all(all);
  expect(times).toHaveLength(3);
  expect(Object.fromEntries(times)).toEqual({ 'HMAC-SHA1': 0.25, 'RSA-SHA256': 0.25 });
});

describe('signatures in Vault', () => {
  const publicKey = publicKeyOf('rsa-2048-public.pem');
  const inVault: TransitKey = {
    kind: 'private_key',
    mount: 'transit',
    name: 'acme',
    keyVersion: 1,
    publicKey,
  };
  const beta = { ...acme, caller: 'other' };
  const inProduction = { ...acme, login: { environment: 'production', login: 'acme' } };
  let now: number;
  /** Signatures that Vault makes. */
  let pending: (() => void)[];

  beforeEach(() => {
    [now, pending] = [0, []];
  });

  function pool(limits: { maxInFlight: number; maxPerSecond: number }, maxQueue = 2): SigningPool {
    const signRemotely: SignRemotely = () =>
      new Promise((resolve) => {
        pending.push(() => resolve('signed'));
      });
    const remote = { ...limits, sign: signRemotely };
    return new SigningPool({ concurrency: 1, maxQueue }, metrics, () => now, remote);
  }

  const signFor = (signer: SigningPool, signee: Signee, count: number): Promise<string>[] =>
    Array.from({ length: count }, () => signer.sign('RSA-SHA256', text, inVault, signee));
  const waiting = (states: readonly string[]): number => states.filter((one) => one === 'waits').length;

  it('are bounded in flight and in the queue, and are made', async () => {
    const signer = pool({ maxInFlight: 2, maxPerSecond: 1000 }, 4);
    const all = [...signFor(signer, acme, 3), ...signFor(signer, beta, 4)];
    // A caller may have half of two and of four.
    expect(await endsOf(all)).toEqual([...Array(6).fill('waits'), 'overloaded']);
    expect(pending).toHaveLength(2);
    for (const sign of pending) sign();
    expect((await endsOf(all)).slice(0, 4)).toEqual(['signed', 'waits', 'waits', 'signed']);
    // They count neither as local ones nor for their queue.
    expect(signed).toEqual([]);
    expect(depths).toEqual([]);
  });

  it('leave room for other callers, and for other environments', async () => {
    const signer = pool({ maxInFlight: 4, maxPerSecond: 1000 }, 4);
    expect(waiting(await endsOf(signFor(signer, acme, 100)))).toBe(4);
    expect(pending).toHaveLength(2);
    // They do not wait for those of the storm, which may all hang.
    const others = [...signFor(signer, beta, 1), ...signFor(signer, inProduction, 2)];
    expect(await endsOf(others)).toEqual(['waits', 'waits', 'waits']);
    expect(pending).toHaveLength(5);
  });

  it('are bounded per second in each environment, for a caller to half, and again after that', async () => {
    const signer = pool({ maxInFlight: 100, maxPerSecond: 10 }, 100);
    expect(waiting(await endsOf(signFor(signer, acme, 7)))).toBe(5);
    expect(waiting(await endsOf(signFor(signer, beta, 7)))).toBe(5);
    const third = { ...acme, caller: 'third' };
    await expect(signer.sign('RSA-SHA256', text, inVault, third)).rejects.toMatchObject({
      reason: 'overloaded',
      detail: expect.stringMatching(
        /^Too many signatures in Vault at once for environment "sandbox".*Nothing was sent\. Retry later\.$/,
      ),
    });
    expect(waiting(await endsOf(signFor(signer, inProduction, 7)))).toBe(5);
    now += 200;
    expect(waiting(await endsOf(signFor(signer, acme, 5)))).toBe(1);
  });

  it('wait a second at most', async () => {
    const signer = pool({ maxInFlight: 4, maxPerSecond: 1000 }, 100);
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'performance'] });
    const all = signFor(signer, acme, 3);
    try {
      const rejected = expect(all[2]).rejects.toMatchObject({
        reason: 'overloaded',
        detail: expect.stringContaining('Nothing was sent. Retry later.'),
        headers: { 'Retry-After': '1' },
      });
      await jest.advanceTimersByTimeAsync(999);
      expect(await endsOf(all)).toEqual(['waits', 'waits', 'waits']);
      await jest.advanceTimersByTimeAsync(1);
      await rejected;
    } finally {
      jest.useRealTimers();
    }
    for (const finish of pending) finish();
    // The slot of the one that gave up is not lost.
    const next = signFor(signer, acme, 2);
    expect(await endsOf([...all.slice(0, 2), ...next])).toEqual(['signed', 'signed', 'waits', 'waits']);
    expect(pending).toHaveLength(4);
  });

  it('do not use the slots of local signatures', async () => {
    const signer = pool({ maxInFlight: 2, maxPerSecond: 1000 });
    expect(await endsOf(signFor(signer, acme, 2))).toEqual(['waits', 'waits']);
    await expect(signer.sign('RSA-SHA256', text, rsa, acme)).resolves.toMatch(/=$/);
  });
});
