import { beforeEach, describe, expect, it } from '@jest/globals';
import { KeyCache } from '../../../src/keys/key-cache.ts';
import { acme, RecordedEvents, refOf, ringOf, ScriptedSource, settled } from './scripted-source.ts';

const second = 1000;
const settings = { ttl: 60 * second, staleIfError: 3600 * second, negativeTtl: 10 * second, maxEntries: 3 };

let now: number;
let source: ScriptedSource;
let cache: KeyCache;
beforeEach(async () => {
  now = 0;
  source = new ScriptedSource();
  for (const login of ['acme', 'b', 'c', 'd']) source.set(refOf(login), ringOf(login));
  cache = newCache();
  await cache.get(acme);
});

function newCache(ttl = settings.ttl): KeyCache {
  const options = {
    monotonic: () => now,
    random: () => 0,
    events: new RecordedEvents(),
    sourceName: 'scripted',
  };
  return new KeyCache(source, { ...settings, ttl }, options);
}

const logins = (of = cache): string[] => [...of.cachedRings()].map(({ login }) => login.login);
const times = () => [...cache.cachedRings()].map((cached) => cached.times())[0];

/** A request, and the refresh that it may start in the background. */
async function use(): Promise<void> {
  await cache.get(acme);
  await settled();
}

describe('the cached rings', () => {
  it('are listed with the last used one first, and listing is no use', async () => {
    await cache.get(refOf('b'));
    await cache.get(refOf('c'));
    await cache.get(acme);
    expect(logins()).toEqual(['acme', 'c', 'b']);
    expect(logins()).toEqual(['acme', 'c', 'b']);
    await cache.get(refOf('d'));
    expect(logins()).toEqual(['d', 'acme', 'c']);
  });

  it('are in the same order after a reload, with the TTL of the new configuration', async () => {
    await cache.get(refOf('b'));
    now = 10 * second;
    await cache.get(refOf('c'));
    const next = newCache(30 * second);
    next.adopt(cache);
    expect(logins(next)).toEqual(['c', 'b', 'acme']);
    const refreshes = [...next.cachedRings()].map((cached) => cached.times().nextRefreshAt);
    expect(refreshes).toEqual([40 * second, 30 * second, 30 * second]);
  });

  it('have their keys', () => {
    expect([...cache.cachedRings()].map(({ ring }) => ring)).toEqual([cache.cached(acme)]);
  });

  it('are not listed once they expired', () => {
    now = settings.staleIfError - 1;
    expect(logins()).toEqual(['acme']);
    now += 1;
    expect(logins()).toEqual([]);
  });

  it('do not have logins without keys', async () => {
    await expect(cache.get(refOf('none'))).rejects.toThrow('key-missing');
    expect(logins()).toEqual(['acme']);
  });
});

describe('a cached ring', () => {
  it('is read again at the end of its TTL', () => {
    now = 59 * second;
    expect(times()).toEqual({ readAt: 0, staleSince: undefined, nextRefreshAt: 60 * second });
  });

  it('that no request used since the end of its TTL is not stale: the next request reads it', () => {
    now = 299 * second;
    expect(times()).toEqual({ readAt: 0, staleSince: undefined, nextRefreshAt: undefined });
  });

  it('is stale if it could not be read again, until it was read', async () => {
    source.down = true;
    now = 70 * second;
    await use();
    expect(times()).toEqual({ readAt: 0, staleSince: 60 * second, nextRefreshAt: 71 * second });
    now = 71 * second;
    expect(times()).toEqual({ readAt: 0, staleSince: 60 * second, nextRefreshAt: undefined });
    source.down = false;
    await use();
    expect(times()).toEqual({ readAt: 71 * second, staleSince: undefined, nextRefreshAt: 131 * second });
  });

  it('is stale if the background refresh that was due did not read it', () => {
    now = 309 * second;
    expect(times()?.staleSince).toBeUndefined();
    now = 310 * second;
    expect(times()).toEqual({ readAt: 0, staleSince: 60 * second, nextRefreshAt: undefined });
  });
});
