import { beforeEach, describe, expect, it } from '@jest/globals';
import { asAttacker, atPace, attacker, pay, statuses, victim } from '../support/attackers.ts';
import type { HttpResponse } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import {
  accept,
  deny,
  type KeyedGateway,
  type SignedRequest,
  startKeyedGateway,
} from '../support/keyed-gateway.ts';
import { nextKeys, oldKeys } from '../support/rotating.ts';
import type { TestKeys, TestProxy } from '../support/service.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();
/** Where the login may pay. */
const good = '1234';

let setup: VaultTestEnvironment;
let gateway: KeyedGateway;
let proxy: TestProxy;

beforeEach(async () => {
  setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  putInVault(oldKeys);
  gateway = await startKeyedGateway(starts, { old: oldKeys, next: nextKeys });
  const keys = vaultKeys(setup.vault.address, {}, { cache: { ttl: '100ms' } });
  proxy = await starts.proxy({ gateway: gateway.url, config: { keys, callers: [attacker(), victim] } });
});

function putInVault({ controlKey, privateKey }: Required<TestKeys>): void {
  setup.vault.put('gateway/sandbox/acme', { control_key: controlKey, private_key: privateKey });
}

/** The gateway accepts what this key signs, where the login has the permission. */
function acceptOnly(key: 'old' | 'next', isPermitted: (request: SignedRequest) => boolean): void {
  gateway.respond = (request, response) =>
    request.key === key && isPermitted(request) ? accept(response) : deny(response);
}

const ofGood = (request: SignedRequest): boolean => request.endpoint === good;
const payWell = () => pay(proxy, good);

/** Vault has the next key, which the gateway does not know yet, and the process has read it. */
async function letTheNextKeyWait(): Promise<void> {
  expect((await payWell()).status).toBe(200);
  putInVault(nextKeys);
  await until(() => proxy.logLines('keys updated').length > 1, 'both keys are known');
}

/** Which keys signed, since so many requests. */
const signersSince = (from: number): Set<string> =>
  new Set(gateway.requests.slice(from).map(({ key }) => key));

describe('payments of another caller that the gateway rejects at endpoints which it invents', () => {
  it.each([107, 300])('stop no payment: %i of them', async (count) => {
    acceptOnly('old', ofGood);
    expect((await payWell()).status).toBe(200);
    const attack = Array.from({ length: count }, (_, nth) =>
      pay(proxy, `invented-${nth}`, { headers: asAttacker }),
    );
    expect(statuses(await Promise.all(attack))).toEqual({ 403: count });
    expect(statuses(await Promise.all(Array.from({ length: 8 }, payWell)))).toEqual({ 200: 8 });
    expect(statuses(await atPace(10, 50, payWell))).toEqual({ 200: 10 });
  });

  it('cause no 403 of a payment that the gateway would accept, when a next key waits', async () => {
    acceptOnly('old', ofGood);
    await letTheNextKeyWait();
    const attack = Array.from({ length: 107 }, (_, nth) =>
      pay(proxy, `invented-${nth}`, { headers: asAttacker }),
    );
    await Promise.all(attack);
    expect(statuses(await Promise.all(Array.from({ length: 20 }, payWell)))).toEqual({ 200: 20 });
  });

  it('move nobody to the key that was superseded', async () => {
    acceptOnly('old', ofGood);
    await letTheNextKeyWait();
    acceptOnly('next', ofGood);
    await until(async () => (await payWell()).status === 200, 'payments are signed with the next key');
    for (const endpoint of ['invented-1', 'invented-2']) {
      const response = await pay(proxy, endpoint, { headers: asAttacker });
      expect(response.status).toBe(403);
    }
    const before = gateway.requests.length;
    expect(statuses(await atPace(10, 20, payWell))).toEqual({ 200: 10 });
    expect(signersSince(before)).toEqual(new Set(['next']));
  });
});

describe('while a next key waits that the gateway does not know', () => {
  it('payments at two endpoints without permission cause no 403 at a good one', async () => {
    acceptOnly('old', ofGood);
    await letTheNextKeyWait();
    const sent = await atPace(300, 10, async () => {
      for (const endpoint of ['2001', '2002']) await pay(proxy, endpoint);
      return payWell();
    });
    expect(statuses(sent)).toEqual({ 200: 300 });
  });

  it('orders that the gateway rejects cost valid ones of the same endpoint one 403 per step at most', async () => {
    acceptOnly('old', ({ form }) => !(form.get('client_orderid') ?? '').startsWith('bad'));
    await letTheNextKeyWait();
    const valid: HttpResponse[] = [];
    const startedAt = performance.now();
    await atPace(200, 10, async (nth) => {
      if (nth % 4 === 0) await pay(proxy, good, { order: 'bad' });
      else valid.push(await payWell());
    });
    const seconds = (performance.now() - startedAt) / 1000;
    const { 403: rejected = 0, 503: held = 0 } = statuses(valid);
    expect(held).toBe(0);
    // After 0, 1, 3, 7 seconds.
    expect(rejected).toBeLessThanOrEqual(Math.ceil(Math.log2(seconds + 2)));
  });
});

describe('two of three orders of a login that the gateway rejects', () => {
  it('stop no valid one', async () => {
    acceptOnly('old', ({ form }) => !(form.get('client_orderid') ?? '').startsWith('bad'));
    const sent = await atPace(320, 10, (nth) => pay(proxy, good, { order: nth % 3 === 0 ? 'good' : 'bad' }));
    expect(statuses(sent)).toEqual({ 200: 107, 403: 213 });
  });

  it('stop nothing at an endpoint that recovers', async () => {
    let isDown = true;
    acceptOnly('old', () => !isDown);
    await atPace(40, 10, payWell);
    isDown = false;
    expect(statuses(await atPace(20, 10, payWell))).toEqual({ 200: 20 });
  });
});
