import { beforeEach, describe, expect, it } from '@jest/globals';
import { KeyCache } from '../../../src/keys/key-cache.ts';
import { ManualClock } from '../../support/stub-vault/clock.ts';
import { acme, keyOf, RecordedEvents, ringOf, ScriptedSource, settled } from './scripted-source.ts';

const second = 1000;
const settings = { ttl: 60 * second, staleIfError: 3600 * second, negativeTtl: 10 * second, maxEntries: 3 };

let clock: ManualClock;
let source: ScriptedSource;
let events: RecordedEvents;
let cache: KeyCache;
beforeEach(() => {
  clock = new ManualClock();
  source = new ScriptedSource();
  source.set(acme, ringOf('abc'));
  events = new RecordedEvents();
  cache = new KeyCache(source, settings, {
    monotonic: clock.now,
    random: () => 0,
    events,
    sourceName: 'scripted',
    setTimer: clock.setTimer,
  });
});

describe('a look at a login', () => {
  it('reads only the current version, if that is the cached one', async () => {
    const ring = await cache.get(acme);
    expect(await cache.look(acme)).toBe(ring);
    expect(source.started).toEqual(['acme', 'acme?']);
  });

  it('reads the ring once the current version is another one', async () => {
    await cache.get(acme);
    source.set(acme, ringOf('xyz', 2));
    expect(keyOf(await cache.look(acme))).toBe('xyz');
    expect(source.started).toEqual(['acme', 'acme?', 'acme']);
    expect(keyOf(cache.cached(acme))).toBe('xyz');
  });

  it('reads the ring if it is not cached', async () => {
    expect(keyOf(await cache.look(acme))).toBe('abc');
    expect(source.started).toEqual(['acme']);
  });

  it('finds that the login has no keys anymore', async () => {
    await cache.get(acme);
    source.set(acme, undefined);
    expect(await cache.look(acme)).toBeUndefined();
    expect(events.removals).toEqual(['acme deleted']);
  });

  it('is shared by the requests that wait for it', async () => {
    await cache.get(acme);
    source.paused = true;
    const looks = [cache.look(acme), cache.look(acme)];
    await source.release();
    await source.release();
    await Promise.all(looks);
    expect(source.started).toEqual(['acme', 'acme?', 'acme?']);
  });

  it('returns the cached ring if the source fails, and reports the source as down', async () => {
    const ring = await cache.get(acme);
    source.down = true;
    expect(await cache.look(acme)).toBe(ring);
    expect(events.up).toEqual([true, false]);
  });
});

describe('a source that does not respond', () => {
  it('fails a lookup of a login that is not cached at its deadline', async () => {
    source.paused = true;
    const lookup = settlement(cache.get(acme, clock.now() + 8 * second));
    clock.advance(8 * second - 1);
    expect(await outcomes([lookup])).toEqual(['waiting']);
    clock.advance(1);
    expect(await lookup).toMatchObject({ reason: 'key-source-unavailable' });
    expect(events.lookups).toEqual(['sandbox failed']);
  });

  it('keeps a request with cached keys waiting for a second only, once a read has failed; what it reads later is cached', async () => {
    const ring = await cache.get(acme);
    source.down = true;
    await cache.look(acme);
    source.down = false;
    source.set(acme, ringOf('xyz', 2));
    source.paused = true;
    const looks = [cache.look(acme), cache.look(acme)].map(settlement);
    clock.advance(second - 1);
    expect(await outcomes(looks)).toEqual(['waiting', 'waiting']);
    clock.advance(1);
    expect(await Promise.all(looks)).toEqual([ring, ring]);
    await source.release();
    await source.release();
    expect(keyOf(cache.cached(acme))).toBe('xyz');
  });
});

/** Also of an error, so that a test can await it later. */
function settlement<T>(work: Promise<T>): Promise<unknown> {
  return work.catch((error: unknown) => error);
}

async function outcomes(work: readonly Promise<unknown>[]): Promise<unknown[]> {
  await settled();
  const waiting = Promise.resolve('waiting');
  return Promise.all(work.map((one) => Promise.race([one, waiting])));
}
