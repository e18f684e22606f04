import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { ProxyError } from '../../../src/errors.ts';
import type { Testimony } from '../../../src/keys/choice.ts';
import type { KeyRequest, Send } from '../../../src/keys/selector.ts';
import { endsOf, settled } from '../../support/virtual-clock.ts';
import { acme, newKeys, refOf, textOf, ttl } from './scripted-source.ts';

let keys: ReturnType<typeof newKeys>;
/** The keys that requests were signed with, in the order in which they were sent. */
let sent: string[];
/** What the gateway says to a request that is signed with a key. */
let gateway: (key: string) => Testimony | Promise<Testimony>;
/** What a signature waits for. */
let signing: Promise<void> | undefined;

beforeEach(() => {
  keys = newKeys();
  [sent, signing] = [[], undefined];
});
afterEach(() => keys.reader.stop());

const accepts =
  (...texts: readonly string[]) =>
  (key: string): Testimony =>
    texts.includes(key) ? 'accepted' : 'rejected';

const requestOf = (changes: Partial<KeyRequest>): KeyRequest => ({
  login: acme,
  kind: 'control_key',
  caller: 'shop',
  endpoint: '7',
  readOnly: true,
  deadline: keys.time.now + 30_000,
  maxInFlight: 400,
  ...changes,
});

const send: Send<Testimony> = async (keyNow) => {
  keyNow();
  await signing;
  const key = keyNow();
  const sentAt = keys.time.now;
  sent.push(textOf(key));
  const testimony = await gateway(textOf(key));
  return { response: testimony, testimony, key, sentAt };
};

const query = (changes: Partial<KeyRequest> = {}): Promise<Testimony> =>
  keys.keySelector.query(requestOf(changes), send);
const pay = (changes: Partial<KeyRequest> = {}): Promise<Testimony> =>
  keys.keySelector.payment(requestOf({ readOnly: false, ...changes }), send);

/** Which keys were used since the last call. */
const sentSince = (): string[] => sent.splice(0);
/** The result after some milliseconds, in which the source and the timers do what they do. */
async function after<T>(milliseconds: number, result: Promise<T>): Promise<T> {
  result.catch(() => {});
  await keys.time.advance(milliseconds);
  return result;
}

/** The source has these keys, newest first, and they are in the table. */
async function has(...controlKeys: readonly string[]): Promise<void> {
  keys.source.set(acme, ...controlKeys);
  await keys.reader.read(acme, 'look');
}

/** The gateway accepts a key, and says so. */
async function uses(key: string): Promise<void> {
  gateway = accepts(key);
  await query({ endpoint: 'first' });
  sentSince();
  keys.time.now += 20_000;
}

describe('a rejected query', () => {
  it('is signed at once with each other key of the ring, and the accepted one signs from now on', async () => {
    await has('new', 'mid', 'old');
    gateway = accepts('old');
    expect(await after(0, query())).toBe('accepted');
    expect(sentSince()).toEqual(['new', 'mid', 'old']);
    expect(keys.changes).toEqual(['acme control_key 3 1']);
    expect(keys.looked).toEqual([]);
    await query({ caller: 'other', endpoint: '9' });
    await pay({ caller: 'other', endpoint: '9' });
    expect(sentSince()).toEqual(['old', 'old']);
  });

  it('is signed with the key that a look finds', async () => {
    await has('old');
    await uses('old');
    keys.source.set(acme, 'new', 'old');
    gateway = accepts('new');
    expect(await after(0, query())).toBe('accepted');
    expect(sentSince()).toEqual(['old', 'new']);
    expect(keys.changes).toEqual(['acme control_key 1 2']);
  });

  it('waits a second at most for the look, which goes on', async () => {
    await has('old');
    keys.source.set(acme, 'new', 'old');
    keys.source.paused = true;
    gateway = accepts('new');
    const result = query();
    await keys.time.advance(999);
    expect(await endsOf([result])).toEqual(['waits']);
    expect(await after(1, result)).toBe('rejected');
    expect(sentSince()).toEqual(['old']);
    await keys.source.release();
    expect(await after(0, query())).toBe('accepted');
    expect(sentSince()).toEqual(['old', 'new']);
  });

  it('is signed with other keys as well as those that are rejected at the same time, which count as one', async () => {
    await has('new', 'old');
    gateway = accepts();
    void query();
    void query();
    await keys.time.advance(0);
    expect(sentSince()).toEqual(['new', 'new', 'old', 'old']);
    await keys.time.advance(1_000);
    void query();
    await keys.time.advance(0);
    expect(sentSince()).toEqual(['new', 'old']);
  });

  it('gets another round after 200 ms if a key was accepted in the last 10 s, since the nodes may disagree', async () => {
    await has('new', 'old');
    await uses('new');
    await query();
    sentSince();
    keys.time.now += 9_000;
    gateway = accepts();
    const second = query();
    await keys.time.advance(199);
    expect(sentSince()).toEqual(['new', 'old']);
    gateway = accepts('old');
    expect(await after(1, second)).toBe('accepted');
    expect(sentSince()).toEqual(['new', 'old']);
  });

  it('gets no other round after that, or while the steps allow no other key', async () => {
    await has('new', 'old');
    await uses('new');
    gateway = accepts();
    expect(await after(1_000, query())).toBe('rejected');
    expect(sentSince()).toEqual(['new', 'old']);
    gateway = accepts('new');
    await query();
    gateway = accepts();
    await after(500, query());
    expect(sentSince()).toEqual(['new', 'new', 'old', 'new', 'old']);
    await after(1_000, query());
    expect(sentSince()).toEqual(['new']);
  });

  it('is not signed again after its deadline', async () => {
    await has('new', 'old');
    gateway = () => {
      keys.time.now += 500;
      return 'rejected';
    };
    expect(await query({ deadline: keys.time.now + 500 })).toBe('rejected');
    expect(sentSince()).toEqual(['new']);
  });

  it('is not signed with a key that left the ring meanwhile', async () => {
    await has('new', 'mid', 'old');
    gateway = async (key): Promise<Testimony> => {
      if (key === 'mid') await has('newer', 'mid');
      return 'rejected';
    };
    await after(1_000, query());
    expect(sentSince()).toEqual(['new', 'mid', 'newer']);
  });

  it('is returned at once beyond a quarter of the limit of requests, half of that for a caller and three quarters for a login', async () => {
    for (const login of ['a', 'b', 'c', 'd']) {
      keys.source.set(refOf(login), 'new', 'old');
      await keys.reader.read(refOf(login), 'look');
    }
    gateway = accepts();
    keys.source.paused = true;
    const stateOf = async (caller: string, login: string, maxInFlight = 32): Promise<string> =>
      String(await endsOf([query({ caller, login: refOf(login), maxInFlight })]));
    for (let count = 0; count < 4; count += 1) expect(await stateOf('shop', 'a')).toBe('waits');
    expect(await stateOf('shop', 'b')).toBe('rejected');
    expect(await stateOf('other', 'a')).toBe('waits');
    expect(await stateOf('other', 'a')).toBe('waits');
    expect(await stateOf('third', 'a')).toBe('rejected');
    expect(await stateOf('third', 'b')).toBe('waits');
    expect(await stateOf('third', 'c')).toBe('waits');
    sentSince();
    expect(await stateOf('fourth', 'd')).toBe('rejected');
    expect(sentSince()).toEqual(['new']);
    // After a reload with a higher limit.
    expect(await stateOf('fourth', 'd', 64)).toBe('waits');
    await keys.time.advance(1_000);
    expect(await stateOf('fourth', 'd')).toBe('waits');
  });
});

describe('what the gateway says of a key', () => {
  /** The current key is `old`; a query or payment tries `new`, to which the gateway says this. */
  async function saysOfTried(testimony: Testimony, tries: () => Promise<Testimony>): Promise<string> {
    await has('old');
    await uses('old');
    await has('new', 'old');
    gateway = accepts();
    await after(1_000, pay());
    sentSince();
    gateway = (key) => (key === 'new' ? testimony : 'rejected');
    expect(await after(1_000, tries())).toBe(testimony);
    expect(sentSince()).toContain('new');
    gateway = accepts('old', 'new');
    await query({ caller: 'other' });
    return sentSince().join(' ');
  }

  it.each<[string, Testimony, string]>([
    ['accepts it', 'accepted', 'new'],
    ['reports an error in it', 'error', 'new'],
    ['refuses the same form after a rejection', 'refused', 'new'],
    ['says nothing of its own', 'silent', 'old'],
  ])('in a query that is signed again: it %s', async (_name, testimony, signs) => {
    expect(await saysOfTried(testimony, query)).toBe(signs);
  });

  it.each<[string, Testimony, string]>([
    ['accepts it', 'accepted', 'new'],
    ['reports an error, perhaps before it verifies', 'error', 'old'],
    ['refuses it, which proves nothing beside another payment', 'refused', 'old'],
    ['says nothing of its own', 'silent', 'old'],
  ])('in a payment that tries a key: it %s', async (_name, testimony, signs) => {
    expect(await saysOfTried(testimony, pay)).toBe(signs);
    expect(await saysOfTried(testimony, () => query({ readOnly: false }))).toBe(signs);
  });

  it('is nothing if it refuses a form that was not rejected before', async () => {
    await has('new', 'old');
    gateway = () => 'refused';
    await query();
    expect(keys.table.known(acme)[1]).toEqual([]);
  });

  it('has the next read look for the accepted key at once', async () => {
    await has('new', 'old');
    await uses('old');
    expect(keys.table.known(acme)).toMatchObject([[{ version: 2 }, { version: 1 }], [{ version: 1 }]]);
  });
});

describe('a payment', () => {
  it('is not sent again after a rejection, causes a look, and the next one of its place tries the next key', async () => {
    await has('old');
    await uses('old');
    keys.source.set(acme, 'new', 'old');
    gateway = accepts('new');
    keys.looked.splice(0);
    expect(await pay()).toBe('rejected');
    await settled();
    expect(sentSince()).toEqual(['old']);
    expect(keys.looked).toEqual(['acme']);
    await pay({ endpoint: '8' });
    await pay({ caller: 'other' });
    expect(sentSince()).toEqual(['old', 'old']);
    expect(await pay()).toBe('accepted');
    await pay({ endpoint: '8' });
    await pay({ caller: 'other' });
    expect(sentSince()).toEqual(['new', 'new', 'new']);
    expect(keys.changes).toEqual(['acme control_key 1 2']);
  });

  it('tries the next key for as long as the responses say nothing of it', async () => {
    await has('new', 'old');
    await uses('old');
    gateway = accepts('new');
    await pay();
    const testimonies: Testimony[] = ['refused', 'silent', 'error', 'rejected'];
    gateway = (key) => (key === 'new' ? (testimonies.shift() ?? 'accepted') : 'rejected');
    for (let turn = 0; turn < 5; turn += 1) await pay();
    expect(sentSince()).toEqual(['old', 'new', 'new', 'new', 'new', 'old']);
    keys.time.now += 1_000;
    await pay();
    expect(sentSince()).toEqual(['new']);
    expect(keys.changes).toEqual(['acme control_key 2 1', 'acme control_key 1 2']);
  });

  it('that cannot be sent leaves the next one its trial', async () => {
    await has('new', 'old');
    gateway = accepts('old');
    await pay();
    await pay({ caller: 'other' });
    gateway = () => Promise.reject(new Error('reset'));
    await expect(pay()).rejects.toThrow('reset');
    gateway = accepts('old');
    expect(await pay({ caller: 'other' })).toBe('accepted');
    expect(sentSince()).toEqual(['new', 'new', 'old', 'old']);
  });

  it('is signed with the current key if the one that it tries leaves the ring meanwhile', async () => {
    await has('new', 'old');
    await uses('new');
    gateway = accepts();
    await pay();
    const slow = Promise.withResolvers<void>();
    signing = slow.promise;
    const paying = pay();
    await settled();
    await has('newer', 'new');
    slow.resolve();
    await paying;
    expect(sentSince()).toEqual(['new', 'new']);
  });

  it('is not sent if its login is deleted while it is signed', async () => {
    await has('key');
    gateway = accepts('key');
    const slow = Promise.withResolvers<void>();
    signing = slow.promise;
    const paying = pay();
    await settled();
    keys.source.delete(acme);
    await keys.reader.read(acme, 'refresh');
    slow.resolve();
    await expect(paying).rejects.toMatchObject({ reason: 'key-missing' });
    expect(sent).toEqual([]);
  });
});

describe('cached keys', () => {
  beforeEach(async () => {
    await has('old');
    await uses('old');
    keys.lookups.splice(0);
    keys.source.set(acme, 'new');
    gateway = accepts('old', 'new');
  });

  it('never wait for the source while the login is in use', async () => {
    keys.source.paused = true;
    await query();
    keys.time.now += ttl;
    await query();
    expect(keys.lookups).toEqual(['fresh', 'stale']);
    expect(sentSince()).toEqual(['old', 'old']);
    expect(keys.source.running).toBe(0);
  });

  it('that were not used for ten minutes are read again first, once for all requests', async () => {
    keys.time.now += 600_000;
    keys.source.paused = true;
    const reads = keys.source.started.length;
    const burst = [query(), pay(), query({ caller: 'other' })];
    await settled();
    expect(sentSince()).toEqual([]);
    await keys.source.release();
    await Promise.all(burst);
    expect(sentSince()).toEqual(['new', 'new', 'new']);
    expect(keys.source.started).toHaveLength(reads + 1);
  });

  it('that were deleted meanwhile sign nothing', async () => {
    keys.time.now += 600_000;
    keys.source.delete(acme);
    await expect(query()).rejects.toMatchObject({ reason: 'key-missing' });
    expect(sent).toEqual([]);
    expect(keys.lookups).toEqual(['missing']);
  });

  it('that were read meanwhile are not read again first', async () => {
    keys.time.now += 600_000;
    await keys.reader.read(acme, 'refresh');
    keys.source.paused = true;
    expect(await query()).toBe('accepted');
    expect(sentSince()).toEqual(['new']);
  });

  it('that were not used for ten minutes wait a second at most', async () => {
    keys.time.now += 600_000;
    keys.source.paused = true;
    const waiting = query();
    await keys.time.advance(999);
    expect(sent).toEqual([]);
    expect(await after(1, waiting)).toBe('accepted');
    await query();
    expect(sentSince()).toEqual(['old', 'old']);
  });

  it('that were not used for ten minutes do not wait while the source fails', async () => {
    keys.time.now += 600_000;
    keys.source.fail();
    await keys.reader.read(refOf('beta'), 'request').catch(() => {});
    keys.source.paused = true;
    keys.time.now += 5_000;
    await query();
    expect(sentSince()).toEqual(['old']);
    expect(keys.source.running).toBe(0);
  });
});

describe('a login that is not cached', () => {
  const count = (states: readonly string[], state: string): number =>
    states.filter((one) => one === state).length;

  it.each([{}, { ttl: 0, staleIfError: 0 }])('is read for all its requests at once: %j', async (changed) => {
    keys = newKeys(changed);
    keys.source.set(acme, 'key');
    gateway = accepts('key');
    expect(await endsOf([query(), pay(), query({ caller: 'other' })])).toEqual(Array(3).fill('accepted'));
    expect(keys.source.started).toEqual(['acme']);
    expect(keys.lookups).toEqual(['fetched', 'fetched', 'fetched']);
  });

  it('waits until the deadline, and the read goes on for the next request', async () => {
    keys.source.set(acme, 'key');
    gateway = accepts('key');
    keys.source.paused = true;
    const first = query({ deadline: 3_000 });
    expect(await endsOf([after(2_999, first)])).toEqual(['waits']);
    await expect(after(1, first)).rejects.toMatchObject({ reason: 'key-source-unavailable' });
    await keys.source.release();
    expect(await query()).toBe('accepted');
    expect(keys.source.started).toEqual(['acme']);
  });

  it.each([
    ['half of the limit of requests', 80, 20],
    ['twenty with a small one', 10, 10],
  ])('is refused at once beyond %s, and half of that for a caller', async (_, maxInFlight, half) => {
    keys.source.paused = true;
    const ask = (caller: string, login: string) => query({ caller, login: refOf(login), maxInFlight });
    const storm = Array.from({ length: 300 }, (_, index) => ask('attacker', `invented-${index}`));
    const ofAttacker = await endsOf(storm);
    expect(count(ofAttacker, 'waits')).toBe(half);
    expect(count(ofAttacker, 'overloaded')).toBe(300 - half);
    const ofLogin = await endsOf(Array.from({ length: 20 }, (_, index) => ask(`caller-${index}`, 'acme')));
    expect(count(ofLogin, 'waits')).toBe(half);
    expect(await endsOf([ask('victim', 'acme'), ask('victim', 'beta')])).toEqual([
      'overloaded',
      'overloaded',
    ]);
    for (let turn = 0; turn < 5; turn += 1) await keys.source.release();
    expect(await endsOf([ask('victim', 'beta')])).toEqual(['waits']);
  });
});

describe('the key of a callback', () => {
  const find = (text: string, changes: Partial<KeyRequest> = {}) =>
    keys.keySelector.find(requestOf(changes), (key) => textOf(key) === text);

  it('is any of the ring, and does not become the current one', async () => {
    await has('new', 'old');
    gateway = accepts('old');
    expect(await query()).toBe('accepted');
    expect((await find('new'))?.version).toBe(2);
    expect((await find('old'))?.version).toBe(1);
    expect(await query()).toBe('accepted');
    expect(sentSince()).toEqual(['new', 'old', 'old']);
    expect(keys.changes).toEqual(['acme control_key 2 1']);
  });

  it('may be one that the source just got: it is looked at once, for a second at most', async () => {
    await has('old');
    keys.source.set(acme, 'new', 'old');
    expect((await after(1_000, find('new')))?.version).toBe(2);
    // What was read in the second before is known.
    expect(await after(1_000, find('forged'))).toBeUndefined();
    keys.source.paused = true;
    await keys.time.advance(2_000);
    await after(1_000, expect(find('forged')).rejects.toMatchObject({ reason: 'key-source-unavailable' }));
    await keys.source.release();
  });

  it('is not waited for beyond the room of callbacks, which is none of rejected queries', async () => {
    await has('key', 'old');
    await uses('old');
    keys.source.paused = true;
    await keys.time.advance(2_000);
    const forged = Array.from({ length: 60 }, () => find('forged'));
    // A quarter of 400, and a caller has half of it.
    expect((await endsOf(forged)).filter((end) => end === 'overloaded')).toHaveLength(10);
    gateway = accepts('key');
    expect(await query()).toBe('accepted');
    const results = await after(1_000, Promise.allSettled(forged));
    expect(results.filter(({ status }) => status === 'fulfilled')).toEqual([]);
    await keys.source.release();
  });

  it('is not looked for beyond the budget of the caller, which is no failure of the source', async () => {
    const logins = Array.from({ length: 20 }, (_, at) => refOf(`login-${at}`));
    for (const login of logins) {
      keys.source.set(login, 'key');
      await keys.reader.read(login, 'look');
    }
    await keys.time.advance(2_000);
    const forged = logins.map((login) =>
      find('forged', { login }).catch((error: ProxyError) => error.reason),
    );
    const results = await after(1_000, Promise.all(forged));
    expect(results.filter((result) => result === undefined)).toHaveLength(15);
    expect(results.filter((result) => result === 'overloaded')).toHaveLength(5);
  });

  it('is missing with the others of its kind', async () => {
    await expect(find('key')).rejects.toMatchObject({ reason: 'key-missing' });
    await has('key');
    await expect(find('key', { kind: 'private_key' })).rejects.toMatchObject({ reason: 'key-missing' });
  });
});
