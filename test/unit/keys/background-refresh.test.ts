import { beforeEach, describe, expect, it } from '@jest/globals';
import { BackgroundRefresh } from '../../../src/keys/background-refresh.ts';
import { SourceUnavailable } from '../../../src/keys/errors.ts';
import { KeyCache } from '../../../src/keys/key-cache.ts';
import { ManualClock } from '../../support/stub-vault/clock.ts';
import { acme, keyOf, RecordedEvents, refOf, ringOf, ScriptedSource, settled } from './scripted-source.ts';

const second = 1000;
const hour = 3600 * second;
const settings = { ttl: 60 * second, staleIfError: 12 * hour, negativeTtl: 10 * second, maxEntries: 1000 };

let clock: ManualClock;
let source: ScriptedSource;
let events: RecordedEvents;
let cache: KeyCache;

function start(overrides: Partial<typeof settings> = {}): void {
  const { now: monotonic, setTimer } = clock;
  const options = { monotonic, random: () => 0.5, events, sourceName: 'scripted', setTimer };
  cache = new KeyCache(source, { ...settings, ...overrides }, options);
  cache.start();
}

beforeEach(() => {
  clock = new ManualClock();
  source = new ScriptedSource();
  events = new RecordedEvents();
  source.set(acme, ringOf('first'));
});

async function pass(seconds: number, step = 0.5): Promise<void> {
  for (let passed = 0; passed < seconds; passed += step) {
    clock.advance(step * second);
    await settled();
  }
}

async function read(logins: readonly string[]): Promise<void> {
  for (const login of logins) {
    source.set(refOf(login), ringOf('first'));
    await cache.get(refOf(login));
  }
  source.started.length = 0;
}

const loginsUpTo = (count: number): string[] => Array.from({ length: count }, (_, index) => `login-${index}`);

describe('a key ring in use, without requests', () => {
  beforeEach(() => start());

  it('is refreshed after five times the TTL', async () => {
    await cache.get(acme);
    source.set(acme, ringOf('fixed', 2));
    await pass(240);
    expect(source.started).toEqual(['acme']);
    await pass(65);
    expect(source.started).toEqual(['acme', 'acme']);
    expect(events.rings).toEqual(['sandbox/acme first', 'sandbox/acme fixed']);
  });

  it('is removed if its login was deleted', async () => {
    await cache.get(acme);
    source.set(acme, undefined);
    await pass(305);
    expect(events.removals).toEqual(['acme deleted']);
  });

  it('is removed and not refreshed again if no request used it within staleIfError', async () => {
    await cache.get(acme);
    await pass(12 * 3600 - 10, 5);
    expect(events.removals).toEqual([]);
    await pass(20);
    expect(events.removals).toEqual(['acme unused']);
    source.started.length = 0;
    await pass(1000);
    expect(source.started).toEqual([]);
  });

  it('stays if a request used it meanwhile', async () => {
    await cache.get(acme);
    await pass(6 * 3600, 5);
    await cache.get(acme);
    await pass(7 * 3600, 5);
    expect(events.removals).toEqual([]);
  });
});

it('rings that were read together are all refreshed, spread out, at most 16 at once', async () => {
  start();
  const logins = loginsUpTo(100);
  await read(logins);
  source.paused = true;
  await pass(310);
  expect(source.started.length).toBeLessThanOrEqual(16);
  source.paused = false;
  await source.release();
  source.mostRunning = 0;
  let most = 0;
  for (let seconds = 0; seconds < 15; seconds += 1) {
    const before = source.started.length;
    await pass(1);
    most = Math.max(most, source.started.length - before);
  }
  expect(new Set(source.started)).toEqual(new Set(logins));
  expect(most).toBeLessThanOrEqual(16);
  expect(source.mostRunning).toBeLessThanOrEqual(16);
});

it('refreshes more rings than can be read in time, the oldest first', async () => {
  start({ ttl: second });
  const logins = loginsUpTo(200);
  await read(logins);
  await pass(60);
  const counts = logins.map((login) => source.started.filter((one) => one === login).length);
  expect(Math.min(...counts)).toBeGreaterThanOrEqual(2);
  expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(2);
});

it('a background refresh does not count as use: the least recently used ring is evicted, and its series end', async () => {
  start({ maxEntries: 2 });
  await read(['idle']);
  await pass(100);
  await read(['used']);
  await pass(220);
  expect(source.started).toEqual(['idle']);
  await read(['new']);
  expect(events.removals).toEqual(['idle evicted']);
});

describe('a login that the source denies, while it serves others', () => {
  beforeEach(async () => {
    start({ maxEntries: 2 });
    await read(['denied']);
    await pass(100);
    await read(['used']);
    const readSource = source.read.bind(source);
    source.read = (login) => {
      if (login.login !== 'denied') return readSource(login);
      source.started.push('denied');
      return Promise.reject(new SourceUnavailable(login, new Error('denied'), 'up'));
    };
  });

  it('is read again after a back-off of up to a minute', async () => {
    await pass(290 + 600);
    const count = source.started.filter((login) => login === 'denied').length;
    expect(count).toBeGreaterThanOrEqual(10);
    expect(count).toBeLessThanOrEqual(30);
  });

  it('is not in use because of a failed read', async () => {
    await pass(220);
    expect(source.started).toContain('denied');
    await read(['new']);
    expect(events.removals).toEqual(['denied evicted']);
  });
});

it('while the source fails, only the probes of the recovery read it', async () => {
  start();
  await read(loginsUpTo(100));
  source.down = true;
  await pass(200);
  await cache.get(refOf('login-7'));
  await settled();
  source.started.length = 0;
  await pass(600);
  expect(new Set(source.started)).toEqual(new Set(['login-7']));
  expect(source.started.length).toBeLessThanOrEqual(600 / 5);
});

it('an outage during the refreshes after another one leads to one refresh of each ring, not two', async () => {
  start();
  const logins = loginsUpTo(100);
  await read(logins);
  source.down = true;
  await pass(200);
  await cache.get(refOf('login-7'));
  source.down = false;
  source.started.length = 0;
  while (source.started.length < 30) await pass(0.05, 0.05);
  source.down = true;
  await pass(1, 0.05);
  expect(cache.isFailing()).toBe(true);
  source.down = false;
  while (cache.isFailing()) await pass(0.05, 0.05);
  source.started.length = 0;
  await pass(10, 0.05);
  expect(source.started.length).toBeGreaterThan(50);
  expect(new Set(source.started).size).toBe(source.started.length);
});

it('a source that fails longer than staleIfError leaves no ring, even without requests', async () => {
  start();
  await cache.get(acme);
  await pass(100);
  source.down = true;
  await pass(12 * 3600, 5);
  expect(events.removals).toEqual(['acme expired']);
  expect(cache.hasUsableEntries()).toBe(false);
});

it('rings of a retired cache are not in use, but are served to in-flight requests', async () => {
  start();
  await cache.get(acme);
  cache.stop();
  cache.retire();
  expect(events.removals).toEqual(['acme replaced']);
  expect(keyOf(await cache.get(acme))).toBe('first');
  source.set(acme, ringOf('second', 2));
  await cache.look(acme);
  expect(events.rings).toEqual(['sandbox/acme first', 'sandbox/acme none']);
});

it('reads nothing after stop', async () => {
  start();
  await cache.get(acme);
  cache.stop();
  source.started.length = 0;
  await pass(400);
  expect(source.started).toEqual([]);
  expect(clock.nextTimer).toBeUndefined();
});

it('reads nothing after a stop, though a batch was in flight', async () => {
  start();
  await read(loginsUpTo(40));
  source.paused = true;
  await pass(305);
  expect(source.started.length).toBeGreaterThan(0);
  cache.stop();
  source.paused = false;
  await source.release();
  source.started.length = 0;
  await pass(600);
  expect([source.started, clock.nextTimer]).toEqual([[], undefined]);
});

describe('background reads', () => {
  let read: string[];
  let batches: number;
  let reading: PromiseWithResolvers<void>;
  let background: BackgroundRefresh;
  beforeEach(() => {
    [read, batches, reading] = [[], 0, Promise.withResolvers()];
    background = new BackgroundRefresh({
      monotonic: clock.now,
      random: () => 0.5,
      setTimer: clock.setTimer,
      read: ({ login }) => {
        read.push(login);
        return reading.promise;
      },
      due: () => {
        batches += 1;
        return [];
      },
      outdated: () => [refOf('outdated')],
    });
  });

  it('during a probe of a failing source are left to its recovery, and the probes go on', async () => {
    background.recordFailure(acme);
    await pass(1);
    background.refresh([refOf('other')]);
    reading.resolve();
    await pass(2);
    expect(read).toEqual(['acme', 'acme']);
    background.recordSuccess();
    await pass(1);
    expect(read).toEqual(['acme', 'acme', 'outdated']);
  });

  it('of several sets of logins are in groups of eight, one after the other', async () => {
    const logins = loginsUpTo(24);
    background.refresh(logins.slice(0, 16).map(refOf));
    background.refresh(logins.slice(16).map(refOf));
    for (const length of [0, 8, 16, 24, 24]) {
      expect(read).toEqual(logins.slice(0, length));
      clock.advance(150);
    }
  });

  it('in batches begin once a second, and up to a second later, until they are stopped', async () => {
    background.start();
    clock.advance(1.5 * second - 1);
    expect(batches).toBe(0);
    clock.advance(1);
    expect(batches).toBe(1);
    await settled();
    background.stop();
    clock.advance(10 * second);
    expect(batches).toBe(1);
  });
});
