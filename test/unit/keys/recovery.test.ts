import { beforeEach, describe, expect, it } from '@jest/globals';
import { KeyCache } from '../../../src/keys/key-cache.ts';
import { ManualClock } from '../../support/stub-vault/clock.ts';
import { acme, keyOf, RecordedEvents, refOf, ringOf, ScriptedSource, settled } from './scripted-source.ts';

const second = 1000;
const hour = 3600 * second;
const settings = { ttl: 60 * second, staleIfError: 12 * hour, negativeTtl: 10 * second, maxEntries: 1000 };

let clock: ManualClock;
let source: ScriptedSource;
let cache: KeyCache;
let recoveries: number;
beforeEach(() => {
  recoveries = 0;
  clock = new ManualClock();
  source = new ScriptedSource();
  source.set(acme, ringOf('old'));
  const { now: monotonic, setTimer } = clock;
  const events = new RecordedEvents();
  cache = new KeyCache(source, settings, {
    monotonic,
    random: () => 0.5,
    events,
    sourceName: 'scripted',
    setTimer,
    recovered: () => {
      recoveries += 1;
    },
  });
});

async function pass(seconds: number): Promise<void> {
  for (let step = 0; step < seconds * 10; step += 1) {
    clock.advance(100);
    await settled();
  }
}

/** Reads the logins, then lets the source fail for five minutes with one lookup of the first login. */
async function outageAfterReading(logins: readonly string[]): Promise<void> {
  for (const login of logins) {
    source.set(refOf(login), ringOf('old'));
    await cache.get(refOf(login));
  }
  source.down = true;
  await pass(100);
  await cache.get(refOf(logins[0] ?? ''));
  await pass(200);
}

describe('when the source recovers', () => {
  it('this is noticed without a request, and changes are read', async () => {
    await outageAfterReading(['acme']);
    source.down = false;
    source.set(acme, ringOf('new', 2));
    expect(recoveries).toBe(0);
    await pass(11);
    source.down = true;
    expect(keyOf(await cache.get(acme))).toBe('new');
    expect(recoveries).toBe(1);
  });

  it('recently used logins are refreshed, spread out, at most 16 at once', async () => {
    const logins = Array.from({ length: 100 }, (_, index) => `login-${index}`);
    await outageAfterReading(logins);
    source.down = false;
    source.started.length = 0;
    source.mostRunning = 0;
    await pass(10.5);
    expect(new Set(source.started)).toEqual(new Set(logins));
    expect(source.started).toHaveLength(101);
    expect(source.mostRunning).toBeLessThanOrEqual(16);
  });

  it('the most recently used logins are refreshed first, a few every tenth of a second', async () => {
    const logins = Array.from({ length: 100 }, (_, index) => `login-${index}`);
    await outageAfterReading(logins);
    source.down = false;
    source.started.length = 0;
    while (source.started.length < 2) await pass(0.1);
    expect(source.started.length).toBeLessThanOrEqual(1 + 16);
    expect(source.started).not.toContain('login-2');
    const { length } = source.started;
    for (let step = 0; step < 50; step += 1) {
      clock.advance(10);
      await settled();
    }
    // The groups of half a second, each of eight.
    expect(source.started.length - length).toBeGreaterThanOrEqual(3 * 8);
    expect(source.started.length - length).toBeLessThanOrEqual(4 * 8);
  });

  it('logins that were not used for ten minutes are not refreshed', async () => {
    await cache.get(acme);
    await pass(601);
    source.set(refOf('used'), ringOf('old'));
    await outageAfterReading(['used']);
    source.down = false;
    source.started.length = 0;
    await pass(20);
    expect(source.started).not.toContain('acme');
  });

  it('a read that hung during the outage does not start a new outage', async () => {
    await cache.get(acme);
    await pass(61);
    source.paused = true;
    source.down = true;
    await cache.get(acme);
    source.down = false;
    source.set(refOf('other'), ringOf('x'));
    const other = cache.get(refOf('other'));
    await settled();
    // Both were started; the later one ends first.
    await pass(1);
    const [hung, second] = source.takePending();
    second?.resolve();
    await other;
    hung?.resolve();
    await settled();
    source.paused = false;
    source.started.length = 0;
    await pass(0.5);
    expect(source.started).toEqual([]);
    expect(clock.nextTimer).toBeUndefined();
  });
});

it('while the source fails, a look at a login that is not cached waits until it responds', async () => {
  await outageAfterReading(['acme']);
  source.set(refOf('other'), ringOf('first'));
  [source.down, source.paused] = [false, true];
  const found = cache.look(refOf('other')).then(keyOf);
  const waited = pass(10).then(() => 'waits');
  expect(await Promise.race([found, waited])).toBe('waits');
  await source.release();
  expect(await found).toBe('first');
});

it('a failing source is probed at most once per second, and at least every ten seconds', async () => {
  await cache.get(acme);
  await pass(61);
  source.down = true;
  await cache.get(acme);
  await settled();
  source.started.length = 0;
  await pass(300);
  expect(source.started.length).toBeGreaterThanOrEqual(30);
  expect(source.started.length).toBeLessThanOrEqual(80);
});

it('a second outage is probed as soon as the first one was', async () => {
  await outageAfterReading(['acme']);
  source.down = false;
  await pass(11);
  source.down = true;
  await pass(61);
  await cache.get(acme);
  await settled();
  source.started.length = 0;
  await pass(1.5);
  expect(source.started).toEqual(['acme']);
});

it('reads nothing after stop', async () => {
  source.down = true;
  await cache.get(acme).catch(() => undefined);
  cache.stop();
  await settled();
  source.started.length = 0;
  await pass(30);
  expect(source.started).toEqual([]);
  await cache.get(refOf('other')).catch(() => undefined);
  expect(clock.nextTimer).toBeUndefined();
});
