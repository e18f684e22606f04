import { beforeEach, describe, expect, it } from '@jest/globals';
import { parseKeys } from '../../../src/keys/key.ts';
import { KeyCache } from '../../../src/keys/key-cache.ts';
import { type KeyRing, mayBeUsed, type UsableKey } from '../../../src/keys/ring.ts';
import { ManualClock } from '../../support/stub-vault/clock.ts';
import { acme, keyOf, RecordedEvents, refOf, ringOf, ScriptedSource, settled } from './scripted-source.ts';

const second = 1000;
const hour = 3600 * second;
const day = 24 * hour;
const settings = { ttl: 60 * second, staleIfError: 12 * hour, negativeTtl: 10 * second, maxEntries: 100 };

let clock: ManualClock;
let source: ScriptedSource;
let events: RecordedEvents;
let cache: KeyCache;
beforeEach(() => {
  clock = new ManualClock();
  source = new ScriptedSource();
  source.set(acme, ringOf('abc'));
  events = new RecordedEvents();
  cache = newCache();
});

function newCache(): KeyCache {
  const { now: monotonic, setTimer } = clock;
  return new KeyCache(source, settings, {
    monotonic,
    random: () => 0,
    events,
    sourceName: 'scripted',
    setTimer,
  });
}

function first(ring: KeyRing): UsableKey {
  const [entry] = ring;
  if (entry === undefined || !('key' in entry)) throw new Error('no usable key');
  return entry;
}

function acceptedIn(ring: KeyRing): UsableKey[] {
  return ring.filter((entry): entry is UsableKey => 'key' in entry && entry.isAccepted === true);
}

const supersededAt = new Date(0);
const old = parseKeys({ control_key: 'old' }, { version: 1, supersededAt });
const accepted = () => acceptedIn(cache.cached(acme) ?? []).map((key) => keyOf([key]));

describe('the key that the gateway accepted last', () => {
  beforeEach(async () => {
    source.set(acme, [...ringOf('new', 2), ...old]);
    await cache.get(acme);
    cache.keep(acme, first(old));
  });

  it('may be used beyond the grace period, until another one is accepted', async () => {
    const mayUse = (): boolean[] =>
      (cache.cached(acme) ?? []).map((entry) => mayBeUsed(entry, supersededAt.getTime() + 2 * day, day));
    expect(mayUse()).toEqual([true, true]);
    cache.keep(acme, first(ringOf('new', 2)));
    expect(mayUse()).toEqual([true, false]);
  });

  it('is still the one after the ring was read again, without a change to report', async () => {
    await cache.look(acme);
    expect(accepted()).toEqual(['old']);
    source.set(acme, [...ringOf('newer', 3), ...ringOf('new', 2), ...old]);
    await cache.look(acme);
    expect(accepted()).toEqual(['old']);
    expect(events.rings).toEqual(['sandbox/acme new', 'sandbox/acme newer']);
  });

  it('is handed to the source as known', async () => {
    source.touch();
    await cache.look(acme);
    expect(source.known).toEqual([[], cache.cached(acme)]);
  });

  it('is the one of its kind only', () => {
    const other = { ...first(ringOf('rsa', 2)), kind: 'private_key' } as const;
    cache.keep(acme, other);
    expect(accepted()).toEqual(['old']);
  });

  it('is the one after a reload too', () => {
    const next = newCache();
    next.adopt(cache);
    expect(acceptedIn(next.cached(acme) ?? [])).toHaveLength(1);
  });

  it('is known after its ring was removed from the cache, unless that was deleted', async () => {
    clock.advance(12 * hour);
    await cache.get(acme);
    expect(source.known.at(-1)).toEqual([{ ...first(old), isAccepted: true }]);
    expect(accepted()).toEqual(['old']);
    source.set(acme, undefined);
    await cache.look(acme);
    source.set(acme, [...ringOf('new', 2), ...old]);
    await cache.look(acme);
    expect(source.known.at(-1)).toEqual([]);
    expect(accepted()).toEqual([]);
  });

  it('is known with the newest version that has it', async () => {
    const newer = parseKeys({ control_key: 'old' }, { version: 3, supersededAt });
    source.set(acme, [...ringOf('new', 4), ...newer, ...old]);
    await cache.look(acme);
    cache.keep(acme, first(old));
    clock.advance(12 * hour);
    await cache.get(acme);
    expect(source.known.at(-1)).toEqual([{ ...first(newer), isAccepted: true }]);
  });

  it('is not used if the source has it no more and it was not cached either', async () => {
    clock.advance(12 * hour);
    source.gone = acceptedIn(cache.cached(acme) ?? []);
    source.set(acme, ringOf('new', 2));
    expect(await cache.get(acme)).toHaveLength(1);
  });

  it('stays for staleIfError after it was last read, if the source has it no more', async () => {
    clock.advance(hour);
    source.set(acme, ringOf('new', 2));
    source.gone = acceptedIn(cache.cached(acme) ?? []);
    await cache.look(acme);
    expect(accepted()).toEqual(['old']);
    clock.advance(11 * hour - second);
    source.gone = acceptedIn(cache.cached(acme) ?? []);
    source.touch();
    await cache.look(acme);
    expect(accepted()).toEqual(['old']);
    clock.advance(second);
    source.touch();
    await cache.look(acme);
    expect(cache.cached(acme)).toHaveLength(1);
  });
});

it('a secret that was written anew has new times, also with the numbers and keys of the one before', async () => {
  await cache.get(acme);
  const createdAt = new Date(5);
  source.set(acme, parseKeys({ control_key: 'abc' }, { version: 1, createdAt }));
  await cache.look(acme);
  expect(cache.cached(acme)).toEqual([expect.objectContaining({ createdAt })]);
});

describe('a login that the source does not know', () => {
  beforeEach(async () => {
    await cache.get(acme);
    source.withoutKeys = 'not-found';
    source.set(acme, undefined);
  });

  it('keeps its cached keys until staleIfError after they were read', async () => {
    expect(keyOf(await cache.look(acme))).toBe('abc');
    expect(keyOf(await cache.look(acme))).toBe('abc');
    clock.advance(12 * hour - second);
    expect(keyOf(await cache.get(acme))).toBe('abc');
    await settled();
    clock.advance(second);
    await expect(cache.get(acme)).rejects.toMatchObject({ reason: 'key-missing' });
    expect(events.removals).toEqual(['acme expired']);
  });

  it('is reported, and again once it is found', async () => {
    await cache.look(acme);
    await cache.look(acme);
    source.set(acme, ringOf('abc'));
    await cache.look(acme);
    expect(events.notFound).toEqual(['1 acme', '0']);
  });

  it('makes the source doubtful: what it does not know is read again after a second', async () => {
    const other = refOf('other');
    await expect(cache.get(other)).rejects.toMatchObject({ reason: 'key-missing' });
    source.set(other, ringOf('xyz'));
    await cache.look(acme);
    expect(keyOf(await cache.get(other))).toBe('xyz');
    const another = refOf('another');
    await expect(cache.get(another)).rejects.toMatchObject({ reason: 'key-missing' });
    source.set(another, ringOf('uvw'));
    clock.advance(second - 1);
    await expect(cache.get(another)).rejects.toMatchObject({ reason: 'key-missing' });
    clock.advance(1);
    expect(keyOf(await cache.get(another))).toBe('uvw');
  });

  it('counts no more once its keys are deleted or too old', async () => {
    await cache.look(acme);
    source.withoutKeys = 'deleted';
    expect(await cache.look(acme)).toBeUndefined();
    expect(events.notFound).toEqual(['1 acme', '0']);
  });

  it('counts no more after a reload that changed the source', async () => {
    await cache.look(acme);
    cache.retire();
    expect(events.notFound).toEqual(['1 acme', '0']);
  });

  it('is counted with the others', async () => {
    source.set(refOf('other'), ringOf('xyz'));
    await cache.get(refOf('other'));
    source.set(refOf('other'), undefined);
    await cache.look(acme);
    await cache.look(refOf('other'));
    expect(events.notFound).toEqual(['1 acme', '2 other']);
    const next = newCache();
    next.adopt(cache);
    source.set(acme, ringOf('abc'));
    await next.look(acme);
    expect(events.notFound.at(-1)).toBe('1');
  });

  it('is read again with a back-off, as after a failure', async () => {
    clock.advance(61 * second);
    source.started.length = 0;
    for (let request = 0; request < 5; request += 1) {
      await cache.get(acme);
      await settled();
    }
    expect(source.started).toEqual(['acme']);
    clock.advance(second);
    await cache.get(acme);
    expect(source.started).toEqual(['acme', 'acme']);
  });

  it('has no keys if none are cached', async () => {
    await expect(cache.get(refOf('ghost'))).rejects.toMatchObject({ reason: 'key-missing' });
    expect(events.notFound).toEqual([]);
  });
});

describe('a kind of key that the ring lacks', () => {
  it('is searched for once, by the request that needs it', async () => {
    await cache.get(acme);
    await cache.get(acme, undefined, 'control_key');
    expect(source.searched).toBe(0);
    await Promise.all([cache.get(acme, undefined, 'private_key'), cache.get(acme, undefined, 'private_key')]);
    expect(source.searched).toBe(1);
    await cache.look(acme);
    await cache.get(acme, undefined, 'private_key');
    expect(source.searched).toBe(1);
  });

  it('is searched for by a read that began after the request', async () => {
    await cache.get(acme);
    clock.advance(61 * second);
    source.paused = true;
    await cache.get(acme);
    const searching = cache.get(acme, undefined, 'private_key');
    await settled();
    await source.release();
    expect([source.started.length, source.searched]).toEqual([3, 1]);
    await source.release();
    await searching;
  });

  it('is searched for until the deadline of the request', async () => {
    await cache.get(acme);
    source.paused = true;
    const searching = cache.get(acme, clock.now() + 3 * second, 'private_key');
    const rejected = expect(searching).rejects.toMatchObject({
      reason: 'key-source-unavailable',
      source: 'unknown',
      problem: 'the key source did not respond in the time of the request',
    });
    await settled();
    clock.advance(3 * second);
    await rejected;
  });

  it('is not there if the search finds that the login was deleted', async () => {
    await cache.get(acme);
    source.set(acme, undefined);
    const missing = { reason: 'key-missing', detail: expect.stringContaining('has no keys in environment') };
    await expect(cache.get(acme, undefined, 'private_key')).rejects.toMatchObject(missing);
    expect(events.removals).toEqual(['acme deleted']);
  });

  it('is searched for again if the search failed', async () => {
    await cache.get(acme);
    source.down = true;
    const unknown = { reason: 'key-source-unavailable' };
    for (let turn = 0; turn < 100; turn += 1)
      await expect(cache.get(acme, undefined, 'private_key')).rejects.toMatchObject(unknown);
    expect(source.searched).toBe(1);
    source.down = false;
    clock.advance(2 * second);
    await cache.get(acme, undefined, 'private_key');
    expect(source.searched).toBe(2);
  });
});
