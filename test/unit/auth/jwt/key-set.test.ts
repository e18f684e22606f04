import { describe, expect, it } from '@jest/globals';
import type { JWK } from 'jose';
import { KeySet } from '../../../../src/auth/jwt/key-set.ts';
import { issuerKey } from '../../../support/oidc-server.ts';

const [first, second] = [issuerKey('first'), issuerKey('second')];
const token = { payload: '', signature: '', protected: '' };

/** A set whose time, timers and key source the test moves. */
function create(previous?: KeySet) {
  let now = 0;
  let timer: { run: () => void; at: number } | undefined;
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
      monotonic: () => now,
      random: () => 0,
      setTimer: (run, delay) => {
        const own = { run, at: now + delay };
        if (timer !== undefined) throw new Error('a second timer');
        timer = own;
        return () => {
          if (timer === own) timer = undefined;
        };
      },
      observer: {
        keysFetched: () => state.events.push('fetched'),
        keyFetchFailed: (cause) => state.events.push(cause),
      },
    },
    previous,
  );
  const settle = (): Promise<void> => new Promise((done) => setImmediate(done));
  return {
    set,
    state,
    settle,
    find: (kid: string | undefined, alg = 'ES256') =>
      set.find({ alg, ...(kid === undefined ? {} : { kid }) }, token).then(
        () => 'found',
        (error: { problem?: string }) => error.problem,
      ),
    /** Milliseconds until the next refresh. */
    wait: () => (timer === undefined ? undefined : timer.at - now),
    at: (time: number) => {
      now = time;
    },
    /** Runs the timer at its time. */
    next: async () => {
      const due = timer;
      if (due === undefined) throw new Error('no timer');
      now = due.at;
      timer = undefined;
      due.run();
      await settle();
    },
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

/** With the keys of the first fetch; since then a token may cause another. */
async function createFetched(): Promise<ReturnType<typeof create>> {
  const created = create();
  created.set.refresh();
  await created.settle();
  created.at(10_000);
  return created;
}

describe('the keys of an issuer', () => {
  it('are used until `maxStale` after their fetch began, and are unavailable then', async () => {
    const { set, settle, at, find, holdLoads, state } = create();
    const release = holdLoads();
    set.refresh();
    at(1_000_000);
    release();
    await settle();
    state.failing = true;
    at(3_600_000);
    expect([set.available, await find('first')]).toEqual([true, 'found']);
    at(3_600_001);
    expect([set.available, await find('first')]).toEqual([false, 'jwt-keys-unavailable']);
    state.failing = false;
    at(3_640_000);
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
    const { set, state, settle, next, wait, find } = create();
    state.failing = true;
    set.refresh();
    await settle();
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
      const { set, state, settle, wait, holdLoads } = create();
      state.failing = failing;
      const release = holdLoads();
      set.refresh();
      expect(state.stopped?.aborted).toBe(false);
      set.stop();
      expect(state.stopped?.aborted).toBe(true);
      release();
      await settle();
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
    const { state, at, find, holdLoads } = await createFetched();
    at(10_000);
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
  });

  it('are fetched for unknown keys 10 s after the last fetch at the earliest', async () => {
    const { state, at, find } = await createFetched();
    for (const [time, loads] of [
      [9_999, 1],
      [10_000, 2],
      [19_999, 2],
      [20_000, 3],
    ] as const) {
      at(time);
      expect([time, await find('x'), state.loads]).toEqual([time, 'jwt-key', loads]);
    }
  });

  it('are unavailable rather than unknown for a new key while they cannot be fetched', async () => {
    const { state, find } = await createFetched();
    state.failing = true;
    expect(await find('second')).toBe('jwt-keys-unavailable');
    expect(await find('first')).toBe('found');
    expect(await find('second')).toBe('jwt-keys-unavailable');
    expect(state.loads).toBe(2);
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
    const { set, state, settle, find } = create();
    state.published = [first.jwk, second.jwk, { ...second.jwk, kid: 'first' }];
    set.refresh();
    await settle();
    expect(await find('first')).toBe('jwt-key');
    expect(await find(undefined)).toBe('jwt-key');
    expect(await find('second')).toBe('found');
  });

  it.each([
    ['for encryption', { use: 'enc' }],
    ['only for signing', { key_ops: ['sign'] }],
    ['of another algorithm', { alg: 'ES384' }],
  ])('do not fit if they are %s', async (_, changes) => {
    const { set, state, settle, find } = create();
    state.published = [{ ...first.jwk, ...changes }];
    set.refresh();
    await settle();
    expect(await find('first')).toBe('jwt-key');
  });
});
