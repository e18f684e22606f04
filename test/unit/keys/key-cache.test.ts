import { inspect } from 'node:util';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import { KeyCache } from '../../../src/keys/key-cache.ts';
import type { LoginRef } from '../../../src/keys/key-source.ts';
import {
  acme,
  addressOf,
  keyOf,
  RecordedEvents,
  ringOf,
  ScriptedSource,
  settled,
} from './scripted-source.ts';

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
  const ports = { monotonic: () => now, random: () => random, events, sourceName: 'scripted' };
  cache = new KeyCache(source, settings, ports);
});

const taken = async (address: LoginRef = acme): Promise<string> => keyOf(await cache.get(address));
const refused = async (address: LoginRef = acme): Promise<ProxyError> => {
  const error: unknown = await cache.get(address).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof ProxyError)) throw new Error('not refused');
  return error;
};

describe('a login that is not cached', () => {
  it('is fetched from the source', async () => {
    expect(await taken()).toBe('abc');
    expect(events.taken).toEqual(['sandbox fetched']);
  });

  it('is fetched once for concurrent lookups', async () => {
    source.paused = true;
    const takes = [taken(), taken(), taken()];
    await source.letGo();
    expect(await Promise.all(takes)).toEqual(['abc', 'abc', 'abc']);
    expect(source.begun).toEqual(['acme']);
    expect(events.taken).toEqual(['sandbox fetched', 'sandbox fetched', 'sandbox fetched']);
  });

  it('is separate from the same login of another environment', async () => {
    const production = { environment: 'production', login: 'acme' };
    source.set(production, ringOf('xyz'));
    expect([await taken(), await taken(production), await taken()]).toEqual(['abc', 'xyz', 'abc']);
    expect(source.begun).toHaveLength(2);
  });

  it('is unavailable while the source fails, with Retry-After', async () => {
    source.down = true;
    const refusal = await refused();
    expect(refusal).toMatchObject({ reason: 'key-source-unavailable', headers: { 'Retry-After': '5' } });
    expect(refusal.detail).toContain('login "acme" in environment "sandbox"');
    expect(events.taken).toEqual(['sandbox failed']);
  });

  it('is fetched as soon as the source is back', async () => {
    source.down = true;
    await refused();
    source.down = false;
    expect(await taken()).toBe('abc');
  });

  it('is unavailable for all concurrent lookups if their read fails', async () => {
    source.down = true;
    source.paused = true;
    const takes = [refused(), refused()];
    await source.letGo();
    expect((await Promise.all(takes)).map((refusal) => refusal.reason)).toEqual([
      'key-source-unavailable',
      'key-source-unavailable',
    ]);
    expect(source.begun).toHaveLength(1);
  });

  it("throws the ProxyError of the source, if it threw one", async () => {
    const own = new ProxyError('key-source-unavailable', 'The vault is sealed.', { retryAfter: 30 });
    source.read = () => Promise.reject(own);
    expect(await refused()).toBe(own);
  });

  it('does not show the message of an unexpected error', async () => {
    source.down = true;
    expect(inspect(await refused(), { depth: 9 })).not.toContain('MARK');
  });
});

describe('a fresh ring', () => {
  it('is served at once, without a read of the source', async () => {
    const ring = await cache.get(acme);
    now += 60 * second - 1;
    source.down = true;
    expect(await cache.get(acme)).toBe(ring);
    await settled();
    expect(source.begun).toHaveLength(1);
    expect(events.taken).toEqual(['sandbox fetched', 'sandbox fresh']);
  });

  it('has up to a tenth of jitter in its TTL, so that refreshes spread', async () => {
    random = 0.999;
    await taken();
    now += 54.1 * second;
    await taken();
    expect(events.taken).toEqual(['sandbox fetched', 'sandbox stale']);
  });

  it('has an age counted from the start of the read', async () => {
    source.paused = true;
    const take = taken();
    now += 5 * second;
    await source.letGo();
    await take;
    now += 55 * second;
    await taken();
    expect(events.taken).toEqual(['sandbox fetched', 'sandbox stale']);
    await source.letGo();
  });
});

describe('a stale ring', () => {
  beforeEach(async () => {
    await taken();
    now += 60 * second;
  });

  it('is served at once while one refresh runs in the background', async () => {
    source.set(acme, ringOf('xyz', 2));
    source.paused = true;
    expect([await taken(), await taken(), await taken()]).toEqual(['abc', 'abc', 'abc']);
    expect(source.begun).toHaveLength(2);
    await source.letGo();
    expect(await taken()).toBe('xyz');
    expect(events.taken.slice(1)).toEqual([
      'sandbox stale',
      'sandbox stale',
      'sandbox stale',
      'sandbox fresh',
    ]);
  });

  it('stays when the refresh fails', async () => {
    source.down = true;
    await taken();
    await settled();
    expect(await taken()).toBe('abc');
    expect(events.up).toEqual([true, false]);
  });

  it('is removed when the refresh finds that the login has no keys', async () => {
    source.set(acme, undefined);
    await taken();
    await settled();
    expect((await refused()).reason).toBe('key-missing');
    expect(events.rings).toEqual(['sandbox/acme abc', 'sandbox/acme none']);
    expect(source.begun).toHaveLength(2);
  });

  it('is served while the source fails, until twelve hours after the last successful read', async () => {
    source.down = true;
    now += 12 * hour - 60 * second - 1;
    expect(await taken()).toBe('abc');
    await settled();
    now += 1;
    expect((await refused()).reason).toBe('key-source-unavailable');
    expect(events.taken.slice(1)).toEqual(['sandbox stale', 'sandbox failed']);
    expect(events.rings).toEqual(['sandbox/acme abc', 'sandbox/acme none']);
  });

  it('is read again when the source is back after it expired', async () => {
    now += 12 * hour;
    source.set(acme, ringOf('xyz', 2));
    expect(await taken()).toBe('xyz');
    expect(events.taken).toEqual(['sandbox fetched', 'sandbox fetched']);
  });

  it('joins the refresh in flight if it expires meanwhile', async () => {
    source.paused = true;
    await taken();
    now += 12 * hour;
    const take = taken();
    await source.letGo();
    expect(await take).toBe('abc');
    expect(source.begun).toHaveLength(2);
  });
});

describe('a source that keeps failing', () => {
  beforeEach(async () => {
    await taken();
    now += 60 * second;
    source.down = true;
  });

  /** Seconds between refreshes over a time in which a request comes every half second. */
  async function pausesWithin(duration: number): Promise<number[]> {
    const times: number[] = [];
    for (const end = now + duration; now < end; now += second / 2) {
      const before = source.begun.length;
      await taken();
      await settled();
      if (source.begun.length > before) times.push(now / second);
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
    await taken();
    await settled();
    source.down = false;
    source.set(addressOf('other'), ringOf('xyz'));
    expect(await taken(addressOf('other'))).toBe('xyz');
  });
});

describe('a login without keys', () => {
  const ghost = addressOf('ghost');

  it('is rejected with its name and what to do', async () => {
    const refusal = await refused(ghost);
    expect(refusal.reason).toBe('key-missing');
    expect(refusal.detail).toContain('Login "ghost" has no keys in environment "sandbox"');
    expect(refusal.detail).toContain('have its keys added');
    expect(events.taken).toEqual(['sandbox missing']);
  });

  it('is cached for 10 s, without a read of the source', async () => {
    await refused(ghost);
    source.set(ghost, ringOf('xyz'));
    now += 10 * second - 1;
    expect((await refused(ghost)).reason).toBe('key-missing');
    expect(source.begun).toHaveLength(1);
    now += 1;
    expect(await taken(ghost)).toBe('xyz');
    expect(events.taken).toEqual(['sandbox missing', 'sandbox missing', 'sandbox fetched']);
  });

  it('is cached from the start of the read, which may have missed later changes', async () => {
    source.paused = true;
    const first = refused(ghost);
    now += 9 * second;
    await source.letGo();
    await first;
    source.paused = false;
    source.set(ghost, ringOf('xyz'));
    now += second;
    expect(await taken(ghost)).toBe('xyz');
  });

  it('is still missing when the source fails meanwhile', async () => {
    await refused(ghost);
    source.down = true;
    await cache.refresh(ghost);
    expect((await refused(ghost)).reason).toBe('key-missing');
  });

  it('is unknown again, not missing, when the source fails after the 10 s', async () => {
    await refused(ghost);
    source.down = true;
    now += 10 * second;
    expect((await refused(ghost)).reason).toBe('key-source-unavailable');
  });
});

describe('a refresh past the cache', () => {
  it('returns and caches what the source has now', async () => {
    await taken();
    source.set(acme, ringOf('xyz', 2));
    expect(keyOf(await cache.refresh(acme))).toBe('xyz');
    expect(await taken()).toBe('xyz');
    expect(events.taken).toEqual(['sandbox fetched', 'sandbox fresh']);
    expect(events.rings).toEqual(['sandbox/acme abc', 'sandbox/acme xyz']);
  });

  it('does not join a read that was already in flight', async () => {
    source.paused = true;
    const take = taken();
    source.set(acme, ringOf('xyz', 2));
    const reread = cache.refresh(acme);
    expect(source.begun).toHaveLength(1);
    await source.letGo();
    expect(await take).toBe('abc');
    expect(source.begun).toHaveLength(2);
    await source.letGo();
    expect(keyOf(await reread)).toBe('xyz');
    expect(source.overlapped).toBe(false);
  });

  it('shares the one read that is queued behind it', async () => {
    source.paused = true;
    const reads = [cache.refresh(acme), cache.refresh(acme), cache.refresh(acme)];
    await source.letGo();
    await source.letGo();
    expect((await Promise.all(reads)).map(keyOf)).toEqual(['abc', 'abc', 'abc']);
    expect(source.begun).toHaveLength(2);
  });

  it('returns nothing if the login has no keys anymore, and removes them', async () => {
    await taken();
    source.set(acme, undefined);
    expect(await cache.refresh(acme)).toBeUndefined();
    expect((await refused()).reason).toBe('key-missing');
  });

  it('returns the cached ring if the source fails', async () => {
    const ring = await cache.get(acme);
    source.down = true;
    expect(await cache.refresh(acme)).toBe(ring);
  });

  it('throws if the source fails and nothing is cached', async () => {
    source.down = true;
    await expect(cache.refresh(acme)).rejects.toMatchObject({ reason: 'key-source-unavailable' });
    source.down = false;
    await taken();
    source.down = true;
    now += 12 * hour;
    await expect(cache.refresh(acme)).rejects.toMatchObject({ reason: 'key-source-unavailable' });
  });
});

describe('the bounded cache', () => {
  const logins = ['a', 'b', 'c', 'd'].map(addressOf);
  beforeEach(() => {
    for (const address of logins) source.set(address, ringOf(address.login));
  });

  it('evicts the least recently used ring first', async () => {
    for (const login of ['a', 'b', 'c', 'a', 'd', 'a', 'c', 'b']) await taken(addressOf(login));
    expect(source.begun).toEqual(['a', 'b', 'c', 'd', 'b']);
    expect(events.rings.slice(3)).toEqual(['sandbox/b none', 'sandbox/d d', 'sandbox/d none', 'sandbox/b b']);
  });

  it('evicts no ring for unknown logins', async () => {
    await taken();
    for (let index = 0; index < 50; index += 1) await refused(addressOf(`unknown-${index}`));
    await taken();
    expect(events.taken.at(-1)).toBe('sandbox fresh');
  });

  it('caches a bounded number of unknown logins', async () => {
    for (const login of ['w', 'x', 'y', 'z', 'w']) await refused(addressOf(login));
    expect(source.begun).toEqual(['w', 'x', 'y', 'z', 'w']);
  });
});

it('a login that was missing, got keys and was evicted is not missing again', async () => {
  const late = addressOf('late');
  await refused(late);
  source.set(late, ringOf('xyz'));
  await cache.refresh(late);
  for (const login of ['a', 'b', 'c']) {
    source.set(addressOf(login), ringOf(login));
    await taken(addressOf(login));
  }
  expect(await taken(late)).toBe('xyz');
});

it('a background refresh waits behind reads that requests wait for', async () => {
  await taken();
  now += 60 * second;
  source.paused = true;
  const busy = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((login) => refused(addressOf(login)));
  await taken();
  const request = refused(addressOf('request'));
  await source.letGo(2);
  expect(source.begun.slice(-2)).toEqual(['request', 'acme']);
  await source.letGo();
  await Promise.all([...busy, request]);
});

describe('events', () => {
  it('do not report an unchanged ring, which stays the same object', async () => {
    const ring = await cache.get(acme);
    source.set(acme, ringOf('abc'));
    expect(await cache.refresh(acme)).toBe(ring);
    expect(events.rings).toEqual(['sandbox/acme abc']);
  });

  it('report a new version even if its key is the same', async () => {
    await taken();
    source.set(acme, ringOf('abc', 2));
    await cache.refresh(acme);
    expect(events.rings).toEqual(['sandbox/acme abc', 'sandbox/acme abc']);
  });

  it('report an entry that is superseded, added or removed', async () => {
    await taken();
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
      await cache.refresh(acme);
    }
    expect(events.rings).toHaveLength(5);
  });

  it('report the duration of each read, and whether the source is up', async () => {
    source.paused = true;
    const take = taken();
    now += 1500;
    await source.letGo();
    await take;
    source.paused = false;
    source.down = true;
    await cache.refresh(acme);
    expect(events.fetched).toEqual(['scripted 1.5', 'scripted 0']);
    expect(events.up).toEqual([true, false]);
  });

  it('do not end an outage because of a read that began before another one failed', async () => {
    source.paused = true;
    const early = taken();
    source.down = true;
    const failing = refused(addressOf('other'));
    const [first, second] = source.takeHeld();
    now += 1;
    second?.resolve();
    await failing;
    first?.resolve();
    await early;
    expect(events.up).toEqual([false]);
    source.paused = false;
    source.down = false;
    await cache.refresh(acme);
    expect(events.up).toEqual([false, true]);
  });

  it('report the source as up if a login has no keys', async () => {
    await refused(addressOf('ghost'));
    expect(events.up).toEqual([true]);
    expect(events.rings).toEqual([]);
  });
});

describe('having usable keys', () => {
  it('begins with the first ring, not with a login without keys', async () => {
    expect(cache.hasUsableEntries()).toBe(false);
    await refused(addressOf('ghost'));
    expect(cache.hasUsableEntries()).toBe(false);
    await taken();
    expect(cache.hasUsableEntries()).toBe(true);
  });

  it('continues while the source fails, and ends when every ring has expired', async () => {
    source.set(addressOf('other'), ringOf('xyz'));
    await taken();
    now += hour;
    await taken(addressOf('other'));
    source.down = true;
    now += 11 * hour;
    expect(cache.hasUsableEntries()).toBe(true);
    now += hour;
    expect(cache.hasUsableEntries()).toBe(false);
  });
});
