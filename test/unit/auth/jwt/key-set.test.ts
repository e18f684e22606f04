import { describe, expect, it } from '@jest/globals';
import type { JWK } from 'jose';
import { KeySet } from '../../../../src/auth/jwt/key-set.ts';
import { issuerKey } from '../../../support/oidc-server.ts';
import { ManualClock } from '../../../support/stub-vault/clock.ts';

const [first, second] = [issuerKey('first'), issuerKey('second')];
const token = { payload: '', signature: '', protected: '' };

/** A set whose time, timers and key source the test moves. */
function create(previous?: KeySet) {
  const clock = new ManualClock();
  const state = {
    published: [first.jwk] as JWK[],
    failing: false,
    loads: 0,
    events: [] as string[],
    stopped: undefined as AbortSignal | undefined,
  };
  let hold: Promise<void> | undefined;
  const set = new KeySet(
    {
      load: async (stopped) => {
        state.loads += 1;
        state.stopped = stopped;
        const { published } = state;
        await hold;
        if (state.failing) throw new Error('unreachable');
        return published;
      },
      refreshInterval: 600_000,
      maxStale: 3_600_000,
      monotonic: clock.now,
      random: () => 0,
      setTimer: clock.setTimer,
      observer: {
        keysFetched: () => state.events.push('fetched'),
        keyFetchFailed: (cause) => state.events.push(cause),
      },
    },
    previous,
  );
  const pass = async (milliseconds: number): Promise<void> => {
    clock.advance(milliseconds);
    await new Promise(setImmediate);
  };
  return {
    set,
    state,
    /** Lets this time pass, and what it causes. */
    pass,
    find: (kid: string | undefined) =>
      set.find({ alg: 'ES256', ...(kid === undefined ? {} : { kid }) }, token).then(
        () => 'found',
        (error: { problem?: string }) => error.problem,
      ),
    /** Milliseconds until the next refresh. */
    wait: () => clock.nextTimer,
    next: () => pass(clock.nextTimer ?? Number.NaN),
    /** Loads wait until the returned function is called. */
    holdLoads: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      hold = promise;
      return () => {
        hold = undefined;
        resolve();
      };
    },
  };
}

/** With these keys from the first fetch; since then a token may cause another. */
async function createFetched(...published: JWK[]): Promise<ReturnType<typeof create>> {
  const created = create();
  if (published.length > 0) created.state.published = published;
  created.set.refresh();
  await created.pass(0);
  await created.pass(10_000);
  return created;
}

describe('the keys of an issuer', () => {
  it('are used until `maxStale` after their fetch began, and are unavailable then', async () => {
    const { set, pass, find, holdLoads, state } = create();
    const release = holdLoads();
    set.refresh();
    await pass(1_000_000);
    release();
    await pass(0);
    state.failing = true;
    await pass(2_600_000);
    expect([set.available, await find('first')]).toEqual([true, 'found']);
    await pass(1);
    expect([set.available, await find('first')]).toEqual([false, 'jwt-keys-unavailable']);
    state.failing = false;
    await pass(60_000);
    expect(await find('first')).toBe('found');
  });

  it('are refreshed in the background, ten minutes after the last fetch', async () => {
    const { state, next, wait, find } = await createFetched();
    expect([state.loads, wait()]).toEqual([1, 590_000]);
    state.published = [second.jwk];
    await next();
    expect([state.loads, wait()]).toEqual([2, 600_000]);
    expect(await find('second')).toBe('found');
    expect(state.loads).toBe(2);
  });

  it('are tried again after 1 s, 2 s, 4 s and so on while they cannot be fetched, at most after a minute', async () => {
    const { set, state, pass, next, wait, find } = create();
    state.failing = true;
    set.refresh();
    await pass(0);
    const waits = [];
    for (let nth = 0; nth < 8; nth += 1) {
      waits.push(wait());
      // Tokens cause no other attempt.
      expect(await find('first')).toBe('jwt-keys-unavailable');
      await next();
    }
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    expect(state.loads).toBe(9);
    state.failing = false;
    await next();
    expect(wait()).toBe(600_000);
    expect(state.events.at(-1)).toBe('fetched');
    state.failing = true;
    await next();
    expect(wait()).toBe(1000);
    expect(new Set(state.events)).toEqual(new Set(['unreachable', 'fetched']));
  });

  it.each([true, false])(
    'are no longer fetched after the end: a fetch in flight has no result (failing: %j)',
    async (failing) => {
      const { set, state, pass, wait, holdLoads } = create();
      state.failing = failing;
      const release = holdLoads();
      set.refresh();
      expect(state.stopped?.aborted).toBe(false);
      set.stop();
      expect(state.stopped?.aborted).toBe(true);
      release();
      await pass(0);
      expect([wait(), state.events, set.available]).toEqual([undefined, [], false]);
    },
  );

  it('are waited for by tokens that come before the first fetch has ended, a hundred at most', async () => {
    const { set, state, holdLoads, find } = create();
    const release = holdLoads();
    set.refresh();
    const found = Array.from({ length: 100 }, (_, nth) => find(nth === 0 ? undefined : 'first'));
    expect(await find('first')).toBe('jwt-keys-unavailable');
    release();
    expect(new Set(await Promise.all(found))).toEqual(new Set(['found']));
    expect(state.loads).toBe(1);
    expect(await find('second')).toBe('jwt-key');
  });

  it('that are known are found at once while a hundred tokens with unknown ones wait, or the issuer is down', async () => {
    const { state, pass, find, holdLoads } = await createFetched();
    state.failing = true;
    const release = holdLoads();
    const unknown = Array.from({ length: 100 }, (_, nth) => find(`unknown ${nth}`));
    expect(await find('unknown')).toBe('jwt-keys-unavailable');
    expect(await Promise.all(Array.from({ length: 150 }, () => find('first')))).toEqual(
      Array.from({ length: 150 }, () => 'found'),
    );
    release();
    expect(new Set(await Promise.all(unknown))).toEqual(new Set(['jwt-keys-unavailable']));
    expect(await find('first')).toBe('found');
    // None of them waits any more.
    state.failing = false;
    state.published = [first.jwk, second.jwk];
    await pass(60_000);
    expect(await find('second')).toBe('found');
  });

  it('are fetched for unknown keys 10 s after the last fetch at the earliest', async () => {
    const { state, pass, wait, find } = await createFetched();
    for (const [passed, loads] of [
      [0, 2],
      [9_999, 2],
      [1, 3],
    ] as const) {
      await pass(passed);
      expect([passed, await find('x'), state.loads]).toEqual([passed, 'jwt-key', loads]);
    }
    expect(wait()).toBe(600_000);
  });

  it('are those of the set before a reload, with its problem, until others are fetched', async () => {
    const before = await createFetched();
    before.state.failing = true;
    expect(await before.find('second')).toBe('jwt-keys-unavailable');
    const { set, state, find } = create(before.set);
    expect([set.available, set.problem, await find('first')]).toEqual([true, 'unreachable', 'found']);
    state.published = [second.jwk];
    expect([await find('second'), set.problem, state.loads]).toEqual(['found', undefined, 1]);
  });

  it('are not chosen between if two fit', async () => {
    const { find } = await createFetched(first.jwk, second.jwk, { ...second.jwk, kid: 'first' });
    const found = [await find('first'), await find(undefined), await find('second')];
    expect(found).toEqual(['jwt-key', 'jwt-key', 'found']);
  });
});
