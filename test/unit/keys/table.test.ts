import { beforeEach, describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import { SourceUnavailable } from '../../../src/keys/errors.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import type { KeyRing } from '../../../src/keys/ring.ts';
import type { KeyTable, Login } from '../../../src/keys/table.ts';
import { garbageCollector } from '../../support/garbage.ts';
import type { VirtualClock } from '../../support/virtual-clock.ts';
import { acme, newKeys, refOf, ringOf, settings, staleIfError, textOf, ttl } from './scripted-source.ts';

const place = { caller: 'shop', endpoint: '7', readOnly: true };
const hour = 3_600_000;

let table: KeyTable;
let time: VirtualClock;
let told: string[];
let newTable: ReturnType<typeof newKeys>['newTable'];
beforeEach(() => use({}));

function use(changes: Parameters<typeof newKeys>[0]): void {
  ({ table, time, told, newTable } = newKeys(changes));
}

const store = (ring: KeyRing, ref = acme, gone: KeyRing = []): void =>
  table.store(ref, { ring, gone }, time.now);
const storeNone = (reading: 'deleted' | 'not-found', ref = acme): void => table.store(ref, reading, time.now);
function fails(source: 'up' | 'denied', ref = acme): void {
  table.storeFailure(ref, new SourceUnavailable(ref, new Error(`is ${source}`), source));
}
const loginOf = (ref = acme, of = table): Login => {
  const login = of.find(ref);
  if (login === undefined) throw new TypeError(`${ref.login} has no keys`);
  return login;
};
const signing = (login = loginOf()): string => textOf(table.choiceOf(login, 'control_key').current);
const candidates = (): string[] => table.choiceOf(loginOf(), 'control_key').keys.map(textOf);
/** The gateway accepts the key with this text. */
function accept(text: string, login = loginOf()): void {
  const choice = table.choiceOf(login, 'control_key');
  const key = choice.keys.find((one) => textOf(one) === text);
  if (key === undefined) throw new TypeError(`no key ${text}`);
  choice.recordAccepted(key, time.now, place, time.now);
}
const toldSince = (): string[] => told.splice(0);

describe('the keys of a login', () => {
  it('are told when they changed, not when they were read again', () => {
    store(ringOf('old'));
    store(ringOf('old'));
    store(ringOf('new', 'old'));
    store(ringOf('new', 'old'), refOf('acme', 'production'));
    expect(told).toEqual(['acme old', 'acme new old', 'acme new old']);
  });

  it('are three at most: the newest, and among them the accepted one', () => {
    store(ringOf('old'));
    accept('old');
    store(ringOf('e', 'd', 'c', 'b', 'old'));
    expect(candidates()).toEqual(['e', 'd', 'old']);
    store(ringOf('e', 'd', 'c', 'b', 'a'));
    expect(candidates()).toEqual(['e', 'd', 'c']);
  });

  it('are used for the grace period after they were replaced, the accepted one for longer', () => {
    use({ rotationGracePeriod: hour });
    store(ringOf('new', 'mid', 'old'));
    accept('old');
    time.now = hour - 1_000;
    expect(candidates()).toEqual(['new', 'mid', 'old']);
    time.now += 1;
    expect(candidates()).toEqual(['new', 'old']);
    store(ringOf('newest', 'new', 'old'));
    expect(candidates()).toEqual(['newest', 'old']);
    expect(signing()).toBe('old');
  });

  it('are used again with the next read after the clock was ahead for a while', () => {
    store(ringOf('new', 'old'));
    time.ahead = 48 * hour;
    expect(candidates()).toEqual(['new']);
    time.ahead = 0;
    store(ringOf('new', 'old'));
    expect(candidates()).toEqual(['new', 'old']);
  });

  it('that the source lost without deleting them are used for as long as it may fail', () => {
    const [old = ringOf('')[0]] = ringOf('old');
    if (old === undefined) throw new TypeError('no key');
    store([old]);
    accept('old');
    time.now += ttl;
    store(ringOf('new'), acme, [old]);
    expect(candidates()).toEqual(['new', 'old']);
    time.now += staleIfError - ttl - 1;
    store(ringOf('new'), acme, loginOf().ring.slice(1));
    expect(signing()).toBe('old');
    time.now += 1;
    store(ringOf('new'), acme, loginOf().ring.slice(1));
    expect(signing()).toBe('new');
  });

  it('are told as lost if the newest version has them no more, and as missing if a request needs them', () => {
    const pair = parseKeys({ control_key: 'c', private_key: 'no PEM' }, { version: 4 });
    store(pair);
    store(pair.filter(({ kind }) => kind === 'private_key'));
    expect(toldSince()).toEqual(['acme c unusable', 'acme unusable, lost control_key 4']);
    expect(() => table.choiceOf(loginOf(), 'control_key')).toThrow('No control key');
    expect(() => table.choiceOf(loginOf(), 'private_key')).toThrow('Version 4 of login "acme"');
    table.update(loginOf(), 'private_key');
  });
});

describe('a login that was deleted at the source', () => {
  beforeEach(() => {
    store(ringOf('new', 'old'));
    toldSince();
  });

  it('has no keys at once, also for a request that has them already', () => {
    const login = loginOf();
    expect(signing(login)).toBe('new');
    storeNone('deleted');
    expect(table.find(acme)).toBeUndefined();
    expect(table.negative(acme)).toMatchObject({ reason: 'key-missing' });
    expect(() => table.choiceOf(login, 'control_key')).toThrow(ProxyError);
    expect(told).toEqual(['acme deleted, lost control_key 2']);
  });

  it('has keys again when the source has', () => {
    storeNone('deleted');
    time.now += 1;
    store(ringOf('newer'));
    expect(signing()).toBe('newer');
    expect(table.negative(acme)).toBeUndefined();
  });

  const collect = garbageCollector();
  it.each<[string, () => void]>([
    ['the login was deleted', () => storeNone('deleted')],
    ['another ring replaced it', () => store(ringOf('newest'))],
  ])('leaves no key in memory after %s', async (_when, happens) => {
    const keys = heldKeys();
    happens();
    // A weak reference lasts until the end of the turn.
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    expect(keys.filter((key) => key.deref() !== undefined)).toEqual([]);
  });

  /** Of which requests were signed. */
  function heldKeys(): WeakRef<object>[] {
    accept('new');
    accept('old');
    return table.choiceOf(loginOf(), 'control_key').keys.map(({ key }) => new WeakRef(key));
  }
});

describe('a login that the source does not know or may not read', () => {
  beforeEach(() => {
    store(ringOf('key'));
    toldSince();
  });

  it('keeps its cached keys, is told once, and has its keys again', () => {
    storeNone('not-found');
    storeNone('not-found');
    expect(signing()).toBe('key');
    time.now += 1;
    store(ringOf('key'));
    expect(told).toEqual(['1 not found: acme (sandbox/acme)', '0 not found']);
  });

  it('keeps its cached keys for as long as the source may fail', () => {
    time.now = staleIfError;
    storeNone('not-found');
    expect(table.find(acme)).toBeUndefined();
    expect(told).toEqual(['acme expired']);
    expect(table.negative(acme)).toMatchObject({ reason: 'key-missing' });
  });

  it('keeps its cached keys if they are denied, which is told until they can be read', () => {
    fails('denied');
    fails('denied');
    fails('denied', refOf('beta'));
    expect(signing()).toBe('key');
    expect(table.isDenied(acme)).toBe(true);
    time.now += 1;
    store(ringOf('key'));
    fails('up', refOf('beta'));
    expect(told).toEqual([
      '1 denied: is denied (sandbox/acme)',
      '2 denied: is denied (sandbox/acme)',
      '1 denied: is denied (sandbox/beta)',
      '0 denied: is denied',
    ]);
  });

  it('is denied for ten minutes after the last read that said so', () => {
    fails('denied', refOf('beta'));
    time.now = 600_000;
    table.dropExpired();
    expect(table.isDenied(refOf('beta'))).toBe(false);
  });

  it('is stale from the ttl on, and its keys run out', () => {
    expect(table.secondsLeft(false)).toBeUndefined();
    expect(table.staleSince(loginOf(), false)).toBeUndefined();
    time.now = ttl;
    fails('denied');
    expect(table.staleSince(loginOf(), false)).toBe(ttl);
    expect(table.secondsLeft(false)).toBe((staleIfError - ttl) / 1_000);
  });

  it('is stale while the source fails only if it is in use', () => {
    time.now = ttl;
    expect(table.staleSince(loginOf(), true)).toBe(ttl);
    time.now = 600_000;
    expect(table.staleSince(loginOf(), true)).toBeUndefined();
    expect(table.secondsLeft(true)).toBeUndefined();
  });
});

describe('a name without keys', () => {
  it('is believed to have none for a short time', () => {
    storeNone('not-found');
    time.now = settings.negativeTtl - 1;
    expect(table.negative(acme)).toMatchObject({ reason: 'key-missing' });
    time.now += 1;
    expect(table.negative(acme)).toBeUndefined();
  });

  it('is believed so for a second at most while known logins are missing too: the mount may have vanished', () => {
    store(ringOf('key'), refOf('known'));
    storeNone('not-found');
    storeNone('not-found', refOf('known'));
    expect(table.negative(acme)).toBeUndefined();
    storeNone('not-found');
    time.now = 999;
    expect(table.negative(acme)).toMatchObject({ reason: 'key-missing' });
    time.now += 1;
    expect(table.negative(acme)).toBeUndefined();
  });

  it('that may not be read is asked for again after a second', () => {
    fails('denied');
    time.now = 999;
    expect(table.negative(acme)).toMatchObject({ reason: 'key-source-unavailable' });
    time.now += 1;
    expect(table.negative(acme)).toBeUndefined();
  });

  it('pushes out no login with keys, and no more such names are remembered than logins', () => {
    use({ maxEntries: 10 });
    store(ringOf('key'));
    for (let index = 0; index < 100; index += 1) storeNone('deleted', refOf(`invented-${index}`));
    for (let index = 0; index < 100; index += 1) fails('denied', refOf(`denied-${index}`));
    expect(signing()).toBe('key');
    const all = Array.from({ length: 100 }, (_, index) => [
      refOf(`invented-${index}`),
      refOf(`denied-${index}`),
    ]);
    expect(all.flat().filter((ref) => table.negative(ref) !== undefined)).toHaveLength(10);
    expect(all.flat().filter((ref) => table.isDenied(ref))).toHaveLength(10);
  });
});

describe('a full table', () => {
  it('forgets the login whose last use is the longest ago, with all that is known of it', () => {
    use({ maxEntries: 2 });
    store(ringOf('new', 'old'));
    accept('old');
    store(ringOf('key'), refOf('beta'));
    table.find(acme);
    store(ringOf('key'), refOf('gamma'));
    expect([...table.logins()].map(({ ref }) => ref.login)).toEqual(['gamma', 'acme']);
    expect(signing()).toBe('old');
    store(ringOf('key'), refOf('delta'));
    store(ringOf('key'), refOf('epsilon'));
    expect(told.filter((text) => text.endsWith('evicted'))).toEqual([
      'beta evicted',
      'gamma evicted',
      'acme evicted',
    ]);
    store(ringOf('new', 'old'));
    expect(signing()).toBe('new');
  });
});

describe('a login', () => {
  it('is forgotten when nobody used it for as long as the source may fail', () => {
    store(ringOf('key'));
    time.now = staleIfError - 1;
    store(ringOf('key'));
    table.dropExpired();
    expect(table.peek(acme)).toBeDefined();
    time.now += 1;
    table.dropExpired();
    expect(table.peek(acme)).toBeUndefined();
    expect(told).toEqual(['acme key', 'acme unused']);
  });

  it('is used no more, whoever asks, when it could not be read for as long', () => {
    store(ringOf('key'));
    time.now = staleIfError - 1;
    table.use(loginOf());
    expect(table.hasKeys()).toBe(true);
    time.now += 1;
    expect(table.hasKeys()).toBe(false);
    expect(table.find(acme)).toBeUndefined();
    expect(told).toEqual(['acme key', 'acme expired']);
  });

  it('keeps what a later read said', () => {
    store(ringOf('old'));
    time.now = 9;
    store(ringOf('new'));
    table.store(acme, 'deleted', 5);
    expect(signing()).toBe('new');
  });
});

describe('a login whose keys were read from another source', () => {
  const seeded = (ring: KeyRing, overrides = {}): KeyTable => {
    const { table: next } = newTable(overrides);
    next.seed(loginOf(), ring, time.now);
    return next;
  };

  it('has the same current key if it is one of them, whatever its version is', () => {
    store(ringOf('new', 'old'));
    accept('old');
    const next = seeded(ringOf('newest', 'old', 'oldest'));
    const { accepted, current } = next.choiceOf(loginOf(acme, next), 'control_key');
    expect([accepted, current].map((key) => key && textOf(key))).toEqual(['old', 'old']);
    expect(accepted?.version).toBe(2);
    expect(signing(loginOf(acme, seeded(ringOf('newest'))))).toBe('newest');
  });

  it('is in use no longer than it was', () => {
    store(ringOf('key'));
    time.now = 600_000;
    const next = seeded(ringOf('key'));
    expect(next.isInUse(loginOf(acme, next))).toBe(false);
  });

  it('has the same current key, although the gateway has not accepted it yet', () => {
    store(ringOf('old'));
    expect(signing()).toBe('old');
    const next = seeded(ringOf('new', 'old'));
    expect(textOf(next.choiceOf(loginOf(acme, next), 'control_key').current)).toBe('old');
  });
});

it('a table that is not used any more reports all keys as replaced', () => {
  store(ringOf('key'));
  toldSince();
  table.retire();
  expect(told).toEqual(['acme replaced', '0 not found']);
});

describe('the state of the versions of a login', () => {
  /** Such as `3 waiting, 2 in-use; 2 signs`. */
  function described(): string {
    const { versions, signing: signs } = table.describe(loginOf(), 'control_key');
    const states = versions.map(({ entry, state }) => `${entry.version} ${state}`);
    return `${states.join(', ')}; ${signs?.version ?? 'none'} signs`;
  }
  const reject = (version: number): void => {
    const choice = table.choiceOf(loginOf(), 'control_key');
    for (const key of choice.keys) if (key.version === version) choice.recordRejected(key, place);
  };

  it('is seen step by step in a rotation', () => {
    use({ rotationGracePeriod: hour });
    store(ringOf('a'));
    expect(described()).toBe('1 in-use; 1 signs');
    accept('a');
    expect(described()).toBe('1 in-use; 1 signs');
    store(ringOf('b', 'a'));
    expect(described()).toBe('2 waiting, 1 in-use; 1 signs');
    reject(1);
    time.now = 9_999;
    expect(described()).toBe('2 waiting, 1 in-use; 1 signs');
    time.now = 10_000;
    expect(described()).toBe('2 waiting, 1 rejected; 1 signs');
    accept('b');
    expect(described()).toBe('2 in-use, 1 rejected; 2 signs');
    time.now = 2 * hour;
    expect(described()).toBe('2 in-use, 1 rejected; 2 signs');
  });

  it('is that of distinct keys, each with its newest version, and of unusable ones', () => {
    store(ringOf('', 'b', 'b', 'a'));
    expect(described()).toBe('4 unusable, 3 in-use, 1 replaced; 3 signs');
    store(ringOf(''));
    expect(described()).toBe('1 unusable; none signs');
  });
});
