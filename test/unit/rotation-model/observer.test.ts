import { beforeEach, describe, expect, it } from '@jest/globals';
import { ringIn } from '../../../src/keys/ring.ts';
import { readRing } from '../../../src/keys/vault/read-ring.ts';
import { Conditions } from '../../rotation-model/conditions.ts';
import { LookRate } from '../../rotation-model/look-rate.ts';
import { Observer } from '../../rotation-model/observer.ts';
import type { OperationName } from '../../rotation-model/schedule.ts';
import { VirtualTime } from '../../rotation-model/virtual-time.ts';
import { Gateway, Vault } from '../../rotation-model/world.ts';
import { Random } from '../../support/random.ts';

let time: VirtualTime;
let vault: Vault;
let gateway: Gateway;
let conditions: Conditions;
let observer: Observer;
let requests: number;

beforeEach(() => {
  time = new VirtualTime();
  vault = new Vault(time, new Random(1));
  gateway = new Gateway(1, time, new Random(1));
  conditions = new Conditions(vault, gateway);
  observer = new Observer(conditions, gateway);
  requests = 0;
});

/** Gives the instance these versions of both keys. */
async function hasVersions(versions: number): Promise<void> {
  for (let version = 2; version <= versions; version += 1) {
    vault.write({ control: `c${version}`, rsa: `r${version}` });
  }
  vault.latency = 0;
  const needs = { gracePeriodBegan: 0, known: [], isSearch: false };
  const reading = vault.read({ environment: 'sandbox', login: 'acme' }, (read) => readRing(read, needs));
  await time.run();
  observer.ringChanged(ringIn(await reading), -1_000);
  conditions.update(time.now);
}

/** From now on the gateway accepts only this RSA key or control key. */
function accept(key: string): void {
  gateway.accept(key.startsWith('c') ? 'control_key' : 'private_key', [key], undefined);
  conditions.update(time.now);
}

/** An upstream request, and 10 ms later its response. */
function send(operation: OperationName, key: string, request = nextRequest(), isRetry = false): number {
  const sent = { request, operation, key, timeout: 30_000, sentAt: time.now, isRetry };
  observer.sent(sent);
  const judged = gateway.judge(operation, key);
  time.now += 10;
  observer.received(sent, judged, time.now);
  return request;
}

const retry = (operation: OperationName, key: string, request: number): number =>
  send(operation, key, request, true);

function nextRequest(): number {
  requests += 1;
  return requests;
}

/** A payment that the instance has just received. */
function pay(key: string): void {
  const request = nextRequest();
  observer.canaryRule.admitted(request, 'private_key', time.now);
  const judged = gateway.judge('transfer', key);
  send('transfer', key, request);
  if (judged.status === 403) observer.paymentRejected(request, 'transfer', judged);
}

/** A canary with these results. */
function canary(key: string, configuration = 1): void {
  const id = nextRequest();
  observer.canaryRule.began('private_key', id, configuration, time.now);
  send('order-status', key, id);
  observer.canaryRule.ended('private_key', id, gateway.judge('order-status', key).status, time.now);
}

const violations = (): string[] => observer.violations;

describe('the observer of the rotation model finds no violation', () => {
  it('in a read that is retried with the key that the gateway accepts', async () => {
    await hasVersions(2);
    accept('r2');
    time.now = 2_000;
    retry('order-status', 'r2', send('order-status', 'r1'));
    expect(violations()).toEqual([]);
  });

  it('in a payment that was rejected because the gateway switched after its canary', async () => {
    await hasVersions(2);
    time.now = 2_000;
    canary('r1');
    accept('r2');
    pay('r1');
    expect(violations()).toEqual([]);
  });
});

describe('the observer of the rotation model finds', () => {
  it('a read that failed 2 s after a key was usable', async () => {
    time.now = 2_000;
    await hasVersions(2);
    accept('r2');
    observer.ended({ id: 1, operation: 'order-status', end: 403, startedAt: 4_014 }, 4_030);
    expect(violations()).toEqual([]);
    observer.ended({ id: 2, operation: 'order-status', end: 403, startedAt: 4_015 }, 4_030);
    expect(violations()).toEqual([
      'order-status ended with 403; a key was usable for 2015 ms, the step is 2015',
    ]);
  });

  it('a read that fails after an outage that kept a key from the ring, once a slow source had the time to be read', async () => {
    await hasVersions(1);
    vault.latency = 4_000;
    vault.write({ control: 'c2', rsa: 'r2' });
    conditions.update(time.now);
    time.now = 100;
    accept('r2');
    time.now = 2_000;
    vault.down = true;
    conditions.update(time.now);
    time.now = 10_000;
    send('order-status', 'r1');
    time.now = 12_000;
    vault.down = false;
    conditions.update(time.now);
    // Since the outage: 2 s, and three reads.
    observer.ended({ id: 1, operation: 'order-status', end: 403, startedAt: 25_999 }, 26_010);
    expect(violations()).toEqual([]);
    observer.ended({ id: 2, operation: 'order-status', end: 403, startedAt: 26_000 }, 26_010);
    expect(violations()).toEqual([
      'order-status ended with 403; a key was usable for 14000 ms, the step is 14000',
    ]);
  });

  it('a read that fails after an outage one step later, if the ring already had the key', async () => {
    await hasVersions(2);
    vault.latency = 4_000;
    time.now = 100;
    accept('r2');
    time.now = 2_000;
    vault.down = true;
    conditions.update(time.now);
    time.now = 10_000;
    send('order-status', 'r1');
    time.now = 18_000;
    vault.down = false;
    conditions.update(time.now);
    observer.ended({ id: 1, operation: 'order-status', end: 403, startedAt: 26_989 }, 27_000);
    expect(violations()).toEqual([]);
    observer.ended({ id: 2, operation: 'order-status', end: 403, startedAt: 26_990 }, 27_000);
    expect(violations()).toEqual([
      'order-status ended with 403; a key was usable for 8990 ms, the step is 8990',
    ]);
  });

  it('a payment signed with a key after the first 403 for it', async () => {
    await hasVersions(2);
    time.now = 2_000;
    accept('r2');
    send('transfer', 'r1');
    send('transfer', 'r1');
    expect(violations()).toEqual(['transfer signed with r1 after a 403 for it; r2 was not rejected']);
  });

  it('a payment signed with another key than the last accepted one', async () => {
    await hasVersions(2);
    time.now = 2_000;
    send('transfer', 'r1');
    time.now += 1_000;
    send('transfer', 'r2');
    expect(violations()).toEqual(['transfer signed with r2; r1 was accepted last']);
  });

  it('a request that is sent twice with one key', async () => {
    await hasVersions(2);
    accept('r2');
    const request = send('order-status', 'r1');
    retry('order-status', 'r1', request);
    expect(violations()[0]).toBe('order-status sent twice with r1');
  });

  it('a key that is tried again within its step', async () => {
    await hasVersions(3);
    time.now = 2_000;
    accept('r9');
    retry('order-status', 'r2', send('order-status', 'r3'));
    retry('order-status', 'r2', send('order-status', 'r3'));
    expect(violations()).toEqual(['r2 tried again after 20 of 1000 ms']);
  });

  it('more trials for one switch than two rounds of the ring', async () => {
    await hasVersions(2);
    accept('r9');
    time.now = 2_000;
    for (let count = 0; count < 5; count += 1) retry('order-status', 'r1', send('order-status', 'r2'));
    expect(violations()).toContain('trial 5 of order-status in 80 ms; 4 are allowed');
  });

  it('reads of Vault past the cache within a second', () => {
    observer.reread('private_key', 2_000);
    observer.reread('control_key', 2_999);
    expect(violations()).toEqual(['Vault read past the cache again after 999 ms']);
  });

  it('reads of Vault past the cache that do not become rarer', () => {
    for (let second = 1; second <= 10; second += 1) observer.reread('private_key', second * 1_000);
    expect(violations()).toEqual([
      'read 9 past the cache in 8000 ms; 8 are allowed',
      'read 10 past the cache in 9000 ms; 8 are allowed',
    ]);
  });

  it('a payment that is sent within a step of the one before, though every key is rejected', async () => {
    await hasVersions(2);
    accept('r9');
    time.now = 40_000;
    send('transfer', 'r2');
    send('transfer', 'r1');
    time.now += 100;
    // The next one shows that it is not about one payment.
    send('transfer', 'r1');
    time.now += 1_960;
    send('transfer', 'r2');
    expect(violations()).toEqual([
      'transfer signed with r2, though every key is rejected; the last one was 1960 of 2000 ms before',
    ]);
  });

  it('a payment that is not sent 2 s after Vault got the key, or although it was sent', async () => {
    await hasVersions(2);
    time.now = 50_000;
    accept('r3');
    send('transfer', 'r2');
    time.now = 60_000;
    vault.write({ rsa: 'r3' });
    conditions.update(time.now);
    const ended = { operation: 'transfer', end: 'key-rejected' } as const;
    observer.ended({ id: nextRequest(), ...ended, startedAt: 61_999 }, 62_020);
    expect(violations()).toEqual([]);
    observer.ended({ id: nextRequest(), ...ended, startedAt: 62_000 }, 62_020);
    observer.ended({ id: send('transfer', 'r1'), ...ended, startedAt: 60_000 }, 60_020);
    expect(violations()).toEqual([
      'transfer ended with key-rejected; a key was usable for 2000 ms, the step is 2000',
      'transfer ended with key-rejected, though it was sent',
    ]);
  });

  it('a request that takes longer than its timeout', () => {
    observer.ended({ id: 1, operation: 'order-status', end: 200, startedAt: 0 }, 30_000);
    observer.ended({ id: 2, operation: 'order-status', end: 200, startedAt: 0 }, 35_000);
    expect(violations()).toEqual(['order-status took 35000 ms, which is longer than its timeout']);
  });

  it('a request with cached keys that waits for more than a second while the source fails', async () => {
    await hasVersions(2);
    observer.sourceReported(false, 40_000);
    observer.ended({ id: 1, operation: 'order-status', end: 200, startedAt: 44_999 }, 47_000);
    observer.ended({ id: 2, operation: 'order-status', end: 200, startedAt: 45_000 }, 46_100);
    observer.ended({ id: 3, operation: 'order-status', end: 200, startedAt: 45_000 }, 47_000);
    expect(violations()).toEqual(['order-status waited 2000 ms while the source failed']);
  });

  it('a request without a slot, although the gateway accepts its key', async () => {
    await hasVersions(2);
    time.now = 40_000;
    send('order-status', 'r1');
    const ended = { operation: 'order-status', end: 'overloaded', startedAt: 41_000 } as const;
    const violation = 'order-status ended with overloaded, though the gateway accepts its key';
    observer.ended({ id: nextRequest(), ...ended }, 41_000);
    expect(violations().splice(0)).toContain(violation);
    accept('r9');
    send('order-status', 'r1');
    observer.ended({ id: nextRequest(), ...ended }, 41_000);
    expect(violations()).not.toContain(violation);
  });

  it('cached keys that are removed though the source only lost the login, or a request without them', async () => {
    await hasVersions(2);
    time.now = 10_000;
    vault.forget();
    conditions.update(time.now);
    observer.sourceRule.arrived(1, time.now);
    observer.ended({ id: 1, operation: 'transfer', end: 'key-missing', startedAt: time.now }, time.now);
    observer.ringChanged(undefined, time.now);
    expect(violations()).toEqual([
      'a request ended with key-missing, though the keys of its login are cached',
      'the cached keys were removed, though not every version was deleted',
    ]);
  });

  it('a request that is signed with a deleted key after another one found that the ring is outdated', async () => {
    await hasVersions(2);
    time.now = 10_000;
    vault.setDeleted(true);
    conditions.update(time.now);
    const arrived = (at: number): void => {
      time.now = at;
      const request = nextRequest();
      observer.sourceRule.arrived(request, at);
      send('order-status', 'r2', request);
    };
    for (const at of [69_999, 90_000, 90_200]) arrived(at);
    expect(violations()).toEqual([]);
    arrived(90_300);
    expect(violations()).toEqual(['signed with r2, all versions of which were deleted 80300 ms ago']);
    observer.ringChanged(undefined, time.now);
    expect(violations()).toHaveLength(1);
  });

  it('a read that is rejected although the gateway accepts a cached key, while the source denies reading', async () => {
    await hasVersions(2);
    time.now = 10_000;
    vault.denied = true;
    accept('r2');
    const ended = { operation: 'order-status', end: 403 } as const;
    observer.ended({ id: 1, ...ended, startedAt: 44_999 }, 45_020);
    expect(violations()).toEqual([]);
    observer.ended({ id: 2, ...ended, startedAt: 45_000 }, 45_020);
    expect(violations()).toEqual(['order-status ended with 403, though the gateway accepts a cached key']);
  });

  it('a payment without a canary', async () => {
    await hasVersions(2);
    time.now = 2_000;
    pay('r1');
    canary('r1');
    time.now += 500;
    pay('r1');
    expect(violations()).toEqual([
      'a payment with a private_key follows no canary',
      'a payment with a private_key follows no canary',
    ]);
  });

  it('a payment that is rejected because of its key after a canary that was accepted with another one', async () => {
    await hasVersions(3);
    accept('r2');
    time.now = 2_000;
    canary('r2');
    pay('r1');
    expect(violations()).toContain('a payment was rejected, though r2 was accepted since before its canary');
  });

  it('canaries that are sent too often, or although there is no newer key', async () => {
    await hasVersions(2);
    time.now = 2_000;
    canary('r1');
    canary('r1', 2);
    time.now += 470;
    canary('r1');
    accept('r2');
    canary('r2', 3);
    time.now += 500;
    canary('r2', 3);
    expect(violations()).toEqual([
      'another canary after 490 ms',
      'a canary, though the ring holds no newer key',
    ]);
  });

  it('a payment that waits more than 2 s for a canary', () => {
    observer.canaryRule.waited(2_000);
    observer.canaryRule.waited(2_001);
    expect(violations()).toEqual(['a payment waited 2001 ms for a canary']);
  });
});

it('the limit of looks allows 30 in a second', () => {
  const found: string[] = [];
  const rate = new LookRate((violation) => found.push(violation));
  for (let count = 0; count < 30; count += 1) rate.looked(count);
  rate.looked(1_000);
  expect(found).toEqual([]);
  rate.looked(1_000);
  expect(found).toEqual(['31 looks in 999 ms']);
});
