import { inspect } from 'node:util';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import { SourceUnavailable } from '../../../src/keys/errors.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import { KeyCache } from '../../../src/keys/key-cache.ts';
import type { LoginRef } from '../../../src/keys/login-ref.ts';
import { testKeys } from '../../support/service.ts';
import { acme, keyOf, RecordedEvents, refOf, ringOf, ScriptedSource, settled } from './scripted-source.ts';

const second = 1000;
const hour = 3_600_000;
const settings = { ttl: 60 * second, staleIfError: 12 * hour, negativeTtl: 10 * second, maxEntries: 3 };

let now = 0;
let random = 0;
let source: ScriptedSource;
let events: RecordedEvents;
let cache: KeyCache;
beforeEach(() => {
  now = 1000;
  random = 0;
  source = new ScriptedSource();
  source.set(acme, ringOf('abc'));
  events = new RecordedEvents();
  const options = { monotonic: () => now, random: () => random, events, sourceName: 'scripted' };
  cache = new KeyCache(source, settings, options);
});

const served = async (login: LoginRef = acme): Promise<string> => keyOf(await cache.get(login));
const failure = async (login: LoginRef = acme): Promise<ProxyError> => {
  const error: unknown = await cache.get(login).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof ProxyError)) throw new Error('no ProxyError');
  return error;
};

describe('a login that is not cached', () => {
  it('is fetched from the source', async () => {
    expect(await served()).toBe('abc');
    expect(events.lookups).toEqual(['sandbox fetched']);
  });

  it('is fetched once for concurrent lookups', async () => {
    source.paused = true;
    const lookups = [served(), served(), served()];
    await source.release();
    expect(await Promise.all(lookups)).toEqual(['abc', 'abc', 'abc']);
    expect(source.started).toEqual(['acme']);
    expect(events.lookups).toEqual(['sandbox fetched', 'sandbox fetched', 'sandbox fetched']);
  });

  it('is separate from the same login of another environment', async () => {
    const production = { environment: 'production', login: 'acme' };
    source.set(production, ringOf('xyz'));
    expect([await served(), await served(production), await served()]).toEqual(['abc', 'xyz', 'abc']);
    expect(source.started).toHaveLength(2);
  });

  it('is unavailable while the source fails, with Retry-After', async () => {
    source.down = true;
    const error = await failure();
    expect(error).toMatchObject({ reason: 'key-source-unavailable', headers: { 'Retry-After': '5' } });
    expect(error.detail).toContain('login "acme" in environment "sandbox"');
    expect(events.lookups).toEqual(['sandbox failed']);
  });

  it('is fetched as soon as the source is back', async () => {
    source.down = true;
    await failure();
    source.down = false;
    expect(await served()).toBe('abc');
  });

  it('is unavailable for all concurrent lookups if their read fails', async () => {
    source.down = true;
    source.paused = true;
    const lookups = [failure(), failure()];
    await source.release();
    expect((await Promise.all(lookups)).map((error) => error.reason)).toEqual([
      'key-source-unavailable',
      'key-source-unavailable',
    ]);
    expect(source.started).toHaveLength(1);
  });

  it('throws the SourceUnavailable of the source, if it threw one', async () => {
    const own = new SourceUnavailable(acme, new Error('The vault is sealed.'), 'down');
    source.read = () => Promise.reject(own);
    expect(await failure()).toBe(own);
  });

  it('does not show the message of an unexpected error', async () => {
    source.down = true;
    expect(inspect(await failure(), { depth: 9 })).not.toContain('MARK');
  });
});

describe('a fresh ring', () => {
  it('is served at once, without a read of the source', async () => {
    const ring = await cache.get(acme);
    now += 60 * second - 1;
    source.down = true;
    expect(await cache.get(acme)).toBe(ring);
    await settled();
    expect(source.started).toHaveLength(1);
    expect(events.lookups).toEqual(['sandbox fetched', 'sandbox fresh']);
  });

  it('has up to a tenth of jitter in its TTL, so that refreshes spread', async () => {
    random = 0.999;
    await served();
    now += 54 * second;
    await served();
    now += 0.1 * second;
    await served();
    expect(events.lookups).toEqual(['sandbox fetched', 'sandbox fresh', 'sandbox stale']);
  });

  it('has an age counted from the start of the read', async () => {
    source.paused = true;
    const lookup = served();
    now += 5 * second;
    await source.release();
    await lookup;
    now += 55 * second;
    await served();
    expect(events.lookups).toEqual(['sandbox fetched', 'sandbox stale']);
    await source.release();
  });
});

describe('a stale ring', () => {
  beforeEach(async () => {
    await served();
    now += 60 * second;
  });

  it('is served at once while one refresh runs in the background', async () => {
    source.set(acme, ringOf('xyz', 2));
    source.paused = true;
    expect([await served(), await served(), await served()]).toEqual(['abc', 'abc', 'abc']);
    expect(source.started).toHaveLength(2);
    await source.release();
    expect(await served()).toBe('xyz');
    expect(events.lookups.slice(1)).toEqual([
      'sandbox stale',
      'sandbox stale',
      'sandbox stale',
      'sandbox fresh',
    ]);
  });

  it('stays when the refresh fails', async () => {
    source.down = true;
    await served();
    await settled();
    expect(await served()).toBe('abc');
    expect(events.up).toEqual([true, false]);
  });

  it('is removed when the refresh finds that the login has no keys', async () => {
    source.set(acme, undefined);
    await served();
    await settled();
    expect((await failure()).reason).toBe('key-missing');
    expect(events.rings).toEqual(['sandbox/acme abc', 'sandbox/acme none']);
    expect(source.started).toHaveLength(2);
  });

  it('is served while the source fails, until twelve hours after the last successful read', async () => {
    source.down = true;
    now += 12 * hour - 60 * second - 1;
    expect(await served()).toBe('abc');
    await settled();
    now += 1;
    expect((await failure()).reason).toBe('key-source-unavailable');
    expect(events.lookups.slice(1)).toEqual(['sandbox stale', 'sandbox failed']);
    expect(events.rings).toEqual(['sandbox/acme abc', 'sandbox/acme none']);
  });

  it('is read again when the source is back after it expired', async () => {
    now += 12 * hour;
    source.set(acme, ringOf('xyz', 2));
    expect(await served()).toBe('xyz');
    expect(events.lookups).toEqual(['sandbox fetched', 'sandbox fetched']);
  });

  it('joins the refresh in flight if it expires meanwhile', async () => {
    source.paused = true;
    await served();
    now += 12 * hour;
    const lookup = served();
    await source.release();
    expect(await lookup).toBe('abc');
    expect(source.started).toHaveLength(2);
  });
});

describe('a source that keeps failing', () => {
  beforeEach(async () => {
    await served();
    now += 60 * second;
    source.down = true;
  });

  /** Seconds between refreshes while a request arrives every half second. */
  async function pausesWithin(duration: number): Promise<number[]> {
    const times: number[] = [];
    for (const end = now + duration; now < end; now += second / 2) {
      const before = source.started.length;
      await served();
      await settled();
      if (source.started.length > before) times.push(now / second);
    }
    return times.slice(1).map((time, index) => time - (times[index] ?? 0));
  }

  it('is read after 1 s, 2 s and so on up to every 60 s, not per request', async () => {
    expect(await pausesWithin(250 * second)).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
  });

  it('is read up to twice as often because of jitter, so that refreshes spread', async () => {
    random = 0.999;
    const pauses = await pausesWithin(30 * second);
    expect(pauses).toEqual([1, 1.5, 2.5, 4.5, 8.5]);
  });

  it('is read at once again after it recovered', async () => {
    await pausesWithin(100 * second);
    source.down = false;
    await pausesWithin(60 * second);
    source.down = true;
    now += 60 * second;
    expect(await pausesWithin(8 * second)).toEqual([1, 2, 4]);
  });

  it('delays one login without the others', async () => {
    await served();
    await settled();
    source.down = false;
    source.set(refOf('other'), ringOf('xyz'));
    expect(await served(refOf('other'))).toBe('xyz');
  });
});

describe('a login without keys', () => {
  const ghost = refOf('ghost');

  it('is rejected with its name and what to do', async () => {
    const error = await failure(ghost);
    expect(error.reason).toBe('key-missing');
    expect(error.detail).toContain('Login "ghost" has no keys in environment "sandbox"');
    expect(error.detail).toContain('ask the platform team to add keys');
    expect(events.lookups).toEqual(['sandbox missing']);
  });

  it('is cached for 10 s, without a read of the source', async () => {
    await failure(ghost);
    source.set(ghost, ringOf('xyz'));
    now += 10 * second - 1;
    expect((await failure(ghost)).reason).toBe('key-missing');
    expect(source.started).toHaveLength(1);
    now += 1;
    expect(await served(ghost)).toBe('xyz');
    expect(events.lookups).toEqual(['sandbox missing', 'sandbox missing', 'sandbox fetched']);
  });

  it('is cached from the start of the read, which may have missed later changes', async () => {
    source.paused = true;
    const first = failure(ghost);
    now += 9 * second;
    await source.release();
    await first;
    source.paused = false;
    source.set(ghost, ringOf('xyz'));
    now += second;
    expect(await served(ghost)).toBe('xyz');
  });

  it('is still missing when the source fails meanwhile', async () => {
    await failure(ghost);
    source.down = true;
    await cache.look(ghost);
    expect((await failure(ghost)).reason).toBe('key-missing');
  });

  it('is unknown again, not missing, when the source fails after the 10 s', async () => {
    await failure(ghost);
    source.down = true;
    now += 10 * second;
    expect((await failure(ghost)).reason).toBe('key-source-unavailable');
  });
});

describe('a refresh past the cache', () => {
  it('returns and caches what the source has now', async () => {
    await served();
    source.set(acme, ringOf('xyz', 2));
    expect(keyOf(await cache.look(acme))).toBe('xyz');
    expect(await served()).toBe('xyz');
    expect(events.lookups).toEqual(['sandbox fetched', 'sandbox fresh']);
    expect(events.rings).toEqual(['sandbox/acme abc', 'sandbox/acme xyz']);
  });

  it('does not join a read that was already in flight', async () => {
    source.paused = true;
    const lookup = served();
    source.set(acme, ringOf('xyz', 2));
    const reread = cache.look(acme);
    expect(source.started).toHaveLength(1);
    await source.release();
    expect(await lookup).toBe('abc');
    expect(source.started).toHaveLength(2);
    await source.release();
    expect(keyOf(await reread)).toBe('xyz');
    expect(source.overlapped).toBe(false);
  });

  it('shares the one read that is queued behind it', async () => {
    source.paused = true;
    const reads = [cache.look(acme), cache.look(acme), cache.look(acme)];
    await source.release();
    await source.release();
    expect((await Promise.all(reads)).map(keyOf)).toEqual(['abc', 'abc', 'abc']);
    expect(source.started).toHaveLength(2);
  });

  it('returns nothing if the login has no keys anymore, and removes them', async () => {
    await served();
    source.set(acme, undefined);
    expect(await cache.look(acme)).toBeUndefined();
    expect((await failure()).reason).toBe('key-missing');
  });

  it('returns the cached ring if the source fails', async () => {
    const ring = await cache.get(acme);
    source.down = true;
    expect(await cache.look(acme)).toBe(ring);
  });

  it('throws if the source fails and nothing is cached', async () => {
    source.down = true;
    await expect(cache.look(acme)).rejects.toMatchObject({ reason: 'key-source-unavailable' });
    source.down = false;
    await served();
    source.down = true;
    now += 12 * hour;
    await expect(cache.look(acme)).rejects.toMatchObject({ reason: 'key-source-unavailable' });
  });
});

describe('the bounded cache', () => {
  const logins = ['a', 'b', 'c', 'd'].map(refOf);
  beforeEach(() => {
    for (const login of logins) source.set(login, ringOf(login.login));
  });

  it('evicts the least recently used ring first', async () => {
    for (const login of ['a', 'b', 'c', 'a', 'd', 'a', 'c', 'b']) await served(refOf(login));
    expect(source.started).toEqual(['a', 'b', 'c', 'd', 'b']);
    expect(events.rings.slice(3)).toEqual(['sandbox/b none', 'sandbox/d d', 'sandbox/d none', 'sandbox/b b']);
  });

  it('evicts no ring for unknown logins', async () => {
    await served();
    for (let index = 0; index < 50; index += 1) await failure(refOf(`unknown-${index}`));
    await served();
    expect(events.lookups.at(-1)).toBe('sandbox fresh');
  });

  it('caches a bounded number of unknown logins', async () => {
    for (const login of ['w', 'x', 'y', 'z', 'w']) await failure(refOf(login));
    expect(source.started).toEqual(['w', 'x', 'y', 'z', 'w']);
  });
});

it('a login that was missing, got keys and was evicted is not missing again', async () => {
  const late = refOf('late');
  await failure(late);
  source.set(late, ringOf('xyz'));
  await cache.look(late);
  for (const login of ['a', 'b', 'c']) {
    source.set(refOf(login), ringOf(login));
    await served(refOf(login));
  }
  expect(await served(late)).toBe('xyz');
});

it('a background refresh waits behind reads that requests wait for', async () => {
  await served();
  now += 60 * second;
  source.paused = true;
  const busy = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((login) => failure(refOf(login)));
  await served();
  const request = failure(refOf('request'));
  await source.release(2);
  expect(source.started.slice(-2)).toEqual(['request', 'acme']);
  await source.release();
  await Promise.all([...busy, request]);
});

describe('events', () => {
  it('do not report an unchanged ring, which stays the same object', async () => {
    const ring = await cache.get(acme);
    source.set(acme, ringOf('abc'));
    expect(await cache.look(acme)).toBe(ring);
    expect(events.rings).toEqual(['sandbox/acme abc']);
  });

  it('report a new version even if its key is the same', async () => {
    await served();
    source.set(acme, ringOf('abc', 2));
    await cache.look(acme);
    expect(events.rings).toEqual(['sandbox/acme abc', 'sandbox/acme abc']);
  });

  it('report an entry that is superseded, added or removed', async () => {
    await served();
    const [entry] = ringOf('abc');
    if (entry === undefined) throw new Error('no entry');
    const superseded = { ...entry, supersededAt: new Date(0) };
    for (const ring of [
      [superseded],
      ringOf('xyz', 2),
      [...ringOf('xyz', 2), superseded],
      ringOf('xyz', 2),
    ]) {
      source.set(acme, ring);
      await cache.look(acme);
    }
    expect(events.rings).toHaveLength(5);
  });

  it('report which kinds of keys vanished, once', async () => {
    const { controlKey: control_key, privateKey: private_key } = testKeys;
    const ringOfBoth = parseKeys({ control_key, private_key }, { version: 1 });
    for (const ring of [ringOfBoth, ringOf('abc', 2), ringOf('abc', 2), ringOfBoth, undefined, undefined]) {
      source.set(acme, ring);
      await cache.look(acme);
    }
    expect(events.lost).toEqual(['acme private_key 1', 'acme control_key 1', 'acme private_key 1']);
  });

  it('report no kind as vanished of a ring that is stale, evicted or expired', async () => {
    await served();
    source.down = true;
    now += 13 * hour;
    await failure();
    source.down = false;
    for (const login of ['a', 'b', 'c', 'd']) {
      source.set(refOf(login), ringOf(login));
      await served(refOf(login));
    }
    expect(events.removals).toEqual(['acme expired', 'a evicted']);
    expect(events.lost).toEqual([]);
  });

  it('report the duration of each read, and whether the source is up', async () => {
    source.paused = true;
    const lookup = served();
    now += 1500;
    await source.release();
    await lookup;
    source.paused = false;
    source.down = true;
    await cache.look(acme);
    expect(events.fetched).toEqual(['scripted 1.5', 'scripted 0']);
    expect(events.up).toEqual([true, false]);
  });

  it('do not end an outage because of a read that began before another one failed', async () => {
    source.paused = true;
    const early = served();
    source.down = true;
    const failing = failure(refOf('other'));
    const [first, second] = source.takePending();
    now += 1;
    second?.resolve();
    await failing;
    first?.resolve();
    await early;
    expect(events.up).toEqual([false]);
    source.paused = false;
    source.down = false;
    await cache.look(acme);
    expect(events.up).toEqual([false, true]);
  });

  it('report the source as up if a login has no keys', async () => {
    await failure(refOf('ghost'));
    expect(events.up).toEqual([true]);
    expect(events.rings).toEqual([]);
  });
});

describe('having usable keys', () => {
  it('begins with the first ring, not with a login without keys', async () => {
    expect(cache.hasUsableEntries()).toBe(false);
    await failure(refOf('ghost'));
    expect(cache.hasUsableEntries()).toBe(false);
    await served();
    expect(cache.hasUsableEntries()).toBe(true);
  });

  it('continues while the source fails, and ends when every ring has expired', async () => {
    source.set(refOf('other'), ringOf('xyz'));
    await served();
    now += hour;
    await served(refOf('other'));
    source.down = true;
    now += 11 * hour;
    expect(cache.hasUsableEntries()).toBe(true);
    now += hour;
    expect(cache.hasUsableEntries()).toBe(false);
  });
});
