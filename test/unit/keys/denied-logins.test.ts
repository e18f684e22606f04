import { beforeEach, describe, expect, it } from '@jest/globals';
import { SourceUnavailable } from '../../../src/keys/errors.ts';
import { KeyCache } from '../../../src/keys/key-cache.ts';
import { ManualClock } from '../../support/stub-vault/clock.ts';
import { acme, keyOf, RecordedEvents, refOf, ringOf, ScriptedSource, settled } from './scripted-source.ts';

const second = 1000;
const hour = 3600 * second;
const settings = { ttl: 60 * second, staleIfError: 12 * hour, negativeTtl: 10 * second, maxEntries: 100 };

let clock: ManualClock;
let source: ScriptedSource;
let events: RecordedEvents;
let cache: KeyCache;

function open(): KeyCache {
  const { now: monotonic, setTimer } = clock;
  const options = { monotonic, random: () => 0.5, events, sourceName: 'scripted', setTimer };
  return new KeyCache(source, settings, options);
}

beforeEach(() => {
  clock = new ManualClock();
  source = new ScriptedSource();
  events = new RecordedEvents();
  cache = open();
});

const names = (count: number): string[] => Array.from({ length: count }, (_, index) => `login-${index}`);

/** Gets each login for so long, ten times per second. */
async function getFor(seconds: number, logins: readonly string[] = [], step = 100): Promise<void> {
  for (let passed = 0; passed < seconds * second; passed += step) {
    await Promise.allSettled(logins.map((login) => cache.get(refOf(login))));
    clock.advance(step);
    await settled();
  }
}

function store(logins: readonly string[], key = 'key', version = 1): void {
  for (const login of logins) source.set(refOf(login), ringOf(key, version));
}

describe('logins that the source denies', () => {
  it.each([
    [1, 1],
    [10, 5],
    [40, 10],
  ])(
    'are read once each, then in turn, however many requests come: %d of them %d per second',
    async (count, rate) => {
      source.denies = () => true;
      await getFor(31, names(count), 50);
      expect(source.started.slice(0, count).toSorted()).toEqual(names(count).toSorted());
      expect(source.started.length).toBeGreaterThan(count + 25 * rate);
      expect(source.started.length).toBeLessThanOrEqual(count + 31 * rate);
      const reads = names(count).map((login) => source.started.filter((one) => one === login).length);
      expect(Math.max(...reads) - Math.min(...reads)).toBeLessThanOrEqual(1);
    },
  );

  it('are in use two seconds after the policy permits just one of twenty again', async () => {
    source.denies = () => true;
    store(names(20));
    await getFor(60, names(20));
    source.denies = (login) => login !== 'login-7';
    await getFor(2.1, names(20));
    expect(keyOf(await cache.get(refOf('login-7')))).toBe('key');
    await expect(cache.get(refOf('login-8'))).rejects.toMatchObject({ reason: 'key-source-unavailable' });
  });

  it('can be read within two seconds after the policy is corrected, and their cached keys are read again', async () => {
    const [cached, uncached] = [names(30), names(60).slice(30)];
    store(names(60));
    for (const login of cached) await cache.get(refOf(login));
    source.denies = () => true;
    await getFor(120, [...cached, ...uncached]);
    expect(events.denied.at(-1)).toBe('60 no permission');
    store(cached, 'new', 2);
    source.denies = () => false;
    await getFor(2);
    const rings = await Promise.all(uncached.map((login) => cache.get(refOf(login))));
    expect(new Set(rings.map(keyOf))).toEqual(new Set(['key']));
    const known = await Promise.all(cached.map((login) => cache.get(refOf(login))));
    expect(new Set(known.map(keyOf))).toEqual(new Set(['new']));
    expect(source.mostRunning).toBeLessThanOrEqual(8);
    expect(events.denied.at(-1)).toBe('0 no permission');
  });

  it('can be read soon after a correction, though the policy changed often before the last one', async () => {
    let reads = 0;
    source.denies = () => reads++ % 10 !== 0;
    await getFor(120, names(30), second);
    source.denies = () => false;
    await getFor(22);
    expect(events.denied.at(-1)).toBe('0 no permission');
    source.denies = () => true;
    await getFor(1, names(30));
    expect(events.denied.at(-1)).toBe('30 no permission');
    source.denies = () => false;
    await getFor(0.5, names(30));
    expect(events.denied.at(-1)).toBe('0 no permission');
  });

  it('do not stop other logins, and a missing login is no longer denied', async () => {
    store(['other']);
    source.denies = (login) => login === 'acme';
    await expect(cache.get(acme)).rejects.toMatchObject({ reason: 'key-source-unavailable' });
    expect(keyOf(await cache.get(refOf('other')))).toBe('key');
    expect(events.denied).toEqual(['1 no permission']);
    source.denies = () => false;
    await getFor(2, ['acme']);
    expect(events.denied).toEqual(['1 no permission', '0 no permission']);
    await expect(cache.get(acme)).rejects.toMatchObject({ reason: 'key-missing' });
  });

  it('are no longer denied once they can be read, though their secret is unusable', async () => {
    source.denies = () => true;
    await getFor(1, ['acme']);
    expect(events.denied.at(-1)).toBe('1 no permission');
    source.read = (login) => {
      source.started.push(login.login);
      return Promise.reject(new SourceUnavailable(login, new Error('unexpected content'), 'up'));
    };
    await getFor(2, ['acme']);
    expect(events.denied.at(-1)).toBe('0 no permission');
    expect(events.problems.at(-1)).toBe('acme key read failed: unexpected content');
    source.started.length = 0;
    await getFor(60);
    expect(source.started).toEqual([]);
  });

  it('are probed in turn, also while one of them cannot be read for another reason', async () => {
    source.denies = () => true;
    store(['login-0']);
    await getFor(1, names(2));
    const read = source.read.bind(source);
    source.read = (login, ...needs) =>
      login.login === 'login-1'
        ? Promise.reject(new SourceUnavailable(login, new Error('timeout'), 'down'))
        : read(login, ...needs);
    source.denies = () => false;
    await getFor(3);
    expect(events.denied.at(-1)).toBe('1 no permission');
  });

  it('are a problem once each, not at every probe', async () => {
    source.denies = () => true;
    await getFor(30, names(3));
    expect(events.problems.toSorted()).toEqual(
      names(3).map((login) => `${login} key read failed: no permission`),
    );
  });

  it('cause no storm while the policy changes all the time', async () => {
    let reads = 0;
    source.denies = () => reads++ % 10 !== 0;
    await getFor(60, names(50), second);
    const before = source.started.length;
    await getFor(300, names(50), second);
    // A release of all each half minute at most, and ten probes per second.
    expect(source.started.length - before).toBeLessThan(10 * 50 + 10 * 300);
  });

  it('are forgotten ten minutes after their last request if nothing is cached', async () => {
    source.denies = () => true;
    await getFor(1, ['acme']);
    await getFor(500, [], second);
    await getFor(1, ['acme'], second);
    await getFor(500, [], second);
    expect(events.denied.at(-1)).toBe('1 no permission');
    await getFor(105, [], second);
    expect(events.denied.at(-1)).toBe('0 no permission');
    const { length } = source.started;
    await getFor(60);
    expect(source.started).toHaveLength(length);
    expect(clock.nextTimer).toBeUndefined();
  });

  it('are refreshed later if their keys are cached, not with every request', async () => {
    store(['acme']);
    await cache.get(acme);
    source.denies = () => true;
    clock.advance(61 * second);
    await getFor(0.9, ['acme']);
    const [ring] = [...cache.cachedRings()];
    expect(ring?.times().nextRefreshAt).toBeGreaterThan(clock.now());
  });

  it('are only so many', async () => {
    source.denies = () => true;
    await getFor(0.1, names(150));
    expect(events.denied.at(-1)).toBe('100 no permission');
  });

  it('are probed no more after a stop, and the next cache may read each of them once', async () => {
    source.denies = () => true;
    await getFor(2, names(5));
    const previous = cache;
    cache = open();
    events.denied.length = 0;
    cache.adopt(previous);
    previous.stop();
    expect(events.denied.at(-1)).toBe('5 no permission');
    source.started.length = 0;
    await getFor(0.5, names(5));
    expect(source.started.toSorted()).toEqual(names(5));
    expect(events.problems).toHaveLength(5);
    cache.stop();
    await getFor(10);
    expect(source.started).toHaveLength(5);
  });

  it('are probed no more after a stop during a probe', async () => {
    source.denies = () => true;
    await getFor(0.9, ['acme']);
    [source.started.length, source.paused] = [0, true];
    await getFor(0.2);
    expect(source.started).toEqual(['acme']);
    cache.stop();
    await source.release();
    expect(clock.nextTimer).toBeUndefined();
  });

  it('are not confused with an outage', async () => {
    store(['acme']);
    await cache.get(acme);
    source.denies = () => true;
    clock.advance(61 * second);
    await getFor(5, ['acme']);
    expect(new Set(events.up)).toEqual(new Set([true]));
    source.down = true;
    await getFor(5, ['acme']);
    expect(events.up.at(-1)).toBe(false);
    expect(events.denied.at(-1)).toBe('1 no permission');
    source.down = false;
    source.denies = () => false;
    await getFor(11);
    expect([events.up.at(-1), events.denied.at(-1)]).toEqual([true, '0 no permission']);
  });
});

describe('the time that cached keys have left', () => {
  it.each(['denied', 'down'])('counts from the last read while the source is %s', async (state) => {
    store(['acme', 'other']);
    cache.start();
    await getFor(301, ['acme', 'other'], second);
    expect(events.secondsLeft).toBeUndefined();
    if (state === 'down') source.down = true;
    else source.denies = (login) => login === 'acme';
    await getFor(3600, ['acme'], second);
    expect(events.secondsLeft).toBeGreaterThan(11 * 3600 - 70);
    expect(events.secondsLeft).toBeLessThan(11 * 3600);
    source.down = false;
    source.denies = () => false;
    await getFor(15);
    expect(events.secondsLeft).toBeUndefined();
    cache.stop();
  });

  it('is that of those that were read first', async () => {
    store(['acme', 'other']);
    await cache.get(acme);
    clock.advance(100 * second);
    await cache.get(refOf('other'));
    cache.start();
    source.down = true;
    clock.advance(61 * second);
    await getFor(5, ['other', 'acme']);
    expect(events.secondsLeft).toBeGreaterThan(12 * 3600 - 170);
    expect(events.secondsLeft).toBeLessThan(12 * 3600 - 160);
    cache.stop();
  });
});
