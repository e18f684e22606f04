import { beforeEach, describe, expect, it } from '@jest/globals';
import { parseKeys } from '../../../src/keys/key.ts';
import { KeyHistory, type KeyUse, type UsableKeys } from '../../../src/keys/key-history.ts';
import { type UsableKey, usableKeys } from '../../../src/keys/ring.ts';
import { reveal } from '../../../src/secret.ts';

const acme = { environment: 'sandbox', login: 'acme' };

/** Newest first. */
function ring(...controlKeys: [string, ...string[]]): UsableKeys {
  const all = controlKeys.flatMap((key, index) => {
    const superseded = index === 0 ? {} : { supersededAt: new Date(0) };
    return parseKeys({ control_key: key }, { version: controlKeys.length - index, ...superseded });
  });
  return usableKeys(acme, all, 'control_key', 1, 86_400_000);
}

const textOf = (key: UsableKey | undefined): string =>
  key?.key.kind === 'control_key' ? reveal(key.key.secret) : 'none';

let now: number;
let history: KeyHistory;
let keys: UsableKeys;
beforeEach(() => {
  now = 1000;
  history = new KeyHistory();
  has('b', 'a');
});

function has(...controlKeys: [string, ...string[]]): void {
  keys = ring(...controlKeys);
  history.observe(keys);
}

function use(text: string, operation: string): KeyUse {
  const key = keys.find((one) => textOf(one) === text);
  if (key === undefined) throw new TypeError(`no key ${text}`);
  return { key, operation, sentAt: now };
}

const accept = (text: string, operation = 'read'): void => history.recordAccepted(use(text, operation));
const reject = (
  text: string,
  operation = 'read',
  policy: 'retryable' | 'single-attempt' = 'retryable',
): void => history.recordRejected(use(text, operation), now, policy, true);
const pay = (): string => textOf(history.select(keys, 'single-attempt'));
const read = (): string => textOf(history.select(keys, 'retryable'));
const candidate = (tried: string[], operation = 'read'): string =>
  textOf(
    history.nextCandidate(
      operation,
      tried.map((text) => use(text, operation).key),
      now,
    ),
  );
const failFallback = (text: string, operation = 'read'): void =>
  history.recordFailedFallback(use(text, operation), now);

describe('a read', () => {
  it('is signed with the newest key if nothing is known', () => {
    expect(read()).toBe('b');
  });

  it('is signed with the accepted key for as long as the newest one stays the same', () => {
    reject('b');
    accept('a');
    expect(read()).toBe('a');
    has('c', 'b', 'a');
    expect(read()).toBe('c');
    has('b');
    expect(read()).toBe('b');
  });

  it('is signed with the newest key as soon as it was accepted', () => {
    reject('b');
    accept('a');
    accept('b');
    expect(read()).toBe('b');
  });

  it('is not signed with a rejected key that has a newer version number', () => {
    reject('b');
    accept('a');
    const [a, b] = ['a', 'b'].map((key) => parseKeys({ control_key: key }, { version: key === 'b' ? 9 : 2 }));
    const again = usableKeys(acme, [...(b ?? []), ...(a ?? [])], 'control_key', 1, 86_400_000);
    history.observe(again);
    expect(textOf(history.select(again, 'retryable'))).toBe('a');
  });
});

describe('a payment', () => {
  it('is signed with the last accepted key, even if there is a newer one', () => {
    has('a');
    accept('a');
    has('b', 'a');
    expect(pay()).toBe('a');
    expect(read()).toBe('b');
  });

  it('is signed with the newest as soon as it was accepted', () => {
    accept('a');
    accept('b');
    expect(pay()).toBe('b');
  });

  it('is signed with the newest if the last accepted one was removed', () => {
    accept('a');
    has('c', 'b');
    expect(pay()).toBe('c');
  });

  it('is signed with another key after a 403, even for a read, until the first key is accepted again', () => {
    accept('a', 'status');
    accept('a', 'payment');
    reject('a', 'status');
    expect(pay()).toBe('b');
    accept('a', 'status');
    expect(pay()).toBe('a');
  });

  it('tries one key after the other if all are rejected', () => {
    has('c', 'b', 'a');
    accept('a');
    const signed = Array.from({ length: 6 }, () => {
      const key = pay();
      now += 1;
      reject(key, 'payment', 'single-attempt');
      return key;
    });
    expect(signed).toEqual(['a', 'c', 'b', 'a', 'c', 'b']);
  });

  it('ignores an acceptance that was overtaken', () => {
    accept('a');
    const early = use('a', 'read');
    now += 10;
    reject('a');
    now += 10;
    accept('b');
    history.recordAccepted(early);
    expect(pay()).toBe('b');
  });
});

describe('a 403 that is not about the key does not change the key of payments', () => {
  beforeEach(() => accept('a', 'payment'));

  it('because the response has another cause', () => {
    history.recordRejected(use('a', 'read'), now, 'retryable', false);
    expect(pay()).toBe('a');
  });

  it('because the operation was rejected with every key', () => {
    reject('a');
    reject('b');
    history.recordNoKeyAccepted('read', [], now);
    expect(pay()).toBe('a');
    reject('a');
    expect(pay()).toBe('a');
  });

  it('because the operation was never accepted, while others are', () => {
    reject('a', 'not-enabled');
    expect(pay()).toBe('b');
    accept('a', 'payment');
    reject('a', 'not-enabled');
    expect(pay()).toBe('a');
  });

  it('but not if the operation was accepted meanwhile', () => {
    accept('a', 'read');
    const began = now;
    now += 10;
    reject('b');
    accept('b', 'read');
    now += 10;
    reject('a');
    history.recordNoKeyAccepted('read', [use('b', 'read').key], began);
    expect(pay()).toBe('b');
    expect(history.isRejected(use('a', 'read').key)).toBe(true);
  });

  it('until there is a new key', () => {
    accept('a', 'read');
    reject('a');
    reject('b');
    history.recordNoKeyAccepted('read', [], now);
    has('c', 'b', 'a');
    expect(pay()).toBe('c');
  });
});

describe('a fallback for a rejected key', () => {
  it('is not the rejected one under a newer version number', () => {
    has('a');
    const rejected = keys;
    const renumbered = parseKeys({ control_key: 'a' }, { version: 9 });
    keys = usableKeys(acme, renumbered, 'control_key', 1, 86_400_000);
    history.observe(keys);
    expect(history.nextCandidate('read', rejected, now)).toBeUndefined();
    expect(history.acceptedInstead('read', rejected)).toBeUndefined();
  });

  it('is the last accepted key, then the newest', () => {
    has('d', 'c', 'b', 'a');
    accept('a');
    expect(candidate(['d'])).toBe('a');
    expect(candidate(['d', 'a'])).toBe('c');
    expect(candidate(['d', 'a', 'c', 'b'])).toBe('none');
  });

  it('is due again after 1 s, 2 s, 4 s and so on up to 30 s', () => {
    const steps = Array.from({ length: 7 }, () => {
      failFallback('a');
      const from = now;
      while (candidate(['b']) === 'none') now += 100;
      return (now - from) / 1000;
    });
    expect(steps).toEqual([1, 2, 4, 8, 16, 30, 30]);
  });

  it('backs off from the moment of sending, however late the response', () => {
    const early = use('a', 'read');
    now += 2500;
    history.recordFailedFallback(early, now);
    expect(candidate(['b'])).toBe('a');
  });

  it('is due again after a change of the ring', () => {
    failFallback('a');
    expect(candidate(['b'])).toBe('none');
    has('b', 'a');
    expect(candidate(['b'])).toBe('none');
    has('c', 'b', 'a');
    expect(candidate(['c', 'b'])).toBe('a');
  });

  it('is due again after the first 403 for the last accepted key, not after each', () => {
    accept('b');
    failFallback('a');
    reject('b');
    expect(candidate(['b'])).toBe('a');
    failFallback('a');
    reject('b');
    expect(candidate(['b'])).toBe('none');
  });

  it('stays in back-off if only an operation is rejected that is no longer enabled', () => {
    accept('a', 'payment');
    const rejectedAndContradicted = (): void => {
      now += 10;
      reject('a', 'payment', 'single-attempt');
      now += 10;
      accept('a');
    };
    rejectedAndContradicted();
    failFallback('b');
    rejectedAndContradicted();
    expect(candidate(['a'])).toBe('none');
    accept('a', 'payment');
    reject('a', 'payment', 'single-attempt');
    expect(candidate(['a'])).toBe('b');
  });

  it('is due again after a 403 for a key that the gateway rejected, then replaced, and accepts again', () => {
    accept('a', 'read');
    reject('a', 'read');
    now += 10;
    accept('b', 'read');
    now += 10;
    accept('a', 'other');
    failFallback('b');
    reject('a', 'read');
    expect(history.isUrgent('read', now)).toBe(true);
    expect(candidate(['a'])).toBe('b');
  });

  it('is due again after a 403 of such an operation, once the keys have changed', () => {
    accept('a', 'payment');
    reject('a', 'payment', 'single-attempt');
    accept('a');
    has('c', 'b', 'a');
    failFallback('c', 'payment');
    failFallback('b', 'payment');
    reject('a', 'payment', 'single-attempt');
    expect(candidate(['a'], 'payment')).toBe('c');
  });

  it('backs off per operation', () => {
    failFallback('a', 'not-enabled');
    expect(candidate(['b'], 'not-enabled')).toBe('none');
    expect(candidate(['b'])).toBe('a');
  });
});

it('a key that was accepted meanwhile does not count as rejected because another one was accepted too', () => {
  const since = now;
  reject('b');
  now += 10;
  accept('b');
  now += 10;
  history.recordReplaced([{ key: use('b', 'read').key, rejectedAt: since }], 'read');
  accept('a');
  reject('a');
  expect(pay()).toBe('b');
});

it('a replaced key counts as rejected since its 403, so that an acceptance sent after that clears it', () => {
  const rejectedAt = now;
  // The key was accepted once, so that the operation is known to be enabled.
  history.recordAccepted({ ...use('b', 'read'), sentAt: now - 10 });
  now += 1_000;
  const late = use('b', 'read');
  now += 1_000;
  accept('a');
  history.recordReplaced([{ key: use('b', 'read').key, rejectedAt }], 'read');
  now += 1_000;
  history.recordAccepted(late);
  reject('a');
  expect(pay()).toBe('b');
});

it('a key that left the ring and came back is not rejected because of a 403 from before', () => {
  const left = use('b', 'read');
  accept('a');
  history.observe([use('a', 'read').key]);
  history.recordReplaced([{ key: left.key, rejectedAt: now }], 'read');
  history.recordRejected(left, now, 'single-attempt', true);
  history.observe([left.key, use('a', 'read').key]);
  expect(history.isRejected(left.key)).toBe(false);
});

it('a fallback to the accepted key needs no trial, unless the operation is rejected with every key', () => {
  accept('a');
  const { key } = use('b', 'read');
  expect(textOf(history.acceptedInstead('read', [key]))).toBe('a');
  reject('a');
  expect(history.acceptedInstead('read', [key])).toBeUndefined();
  reject('b');
  history.recordNoKeyAccepted('read', [], now);
  accept('a', 'other');
  expect(history.acceptedInstead('read', [key])).toBeUndefined();
  expect(history.acceptedInstead('never accepted', [key])).toBeUndefined();
  expect(textOf(history.acceptedInstead('other', [key]))).toBe('a');
});

it('the first fallback from a rejected key is counted once', () => {
  reject('b');
  const replace = (): boolean =>
    history.recordReplaced([{ key: use('b', 'read').key, rejectedAt: now }], 'read');
  expect(replace()).toBe(true);
  expect(replace()).toBe(false);
  accept('b');
  expect(replace()).toBe(true);
});

it('a key accepted after its 403 is not rejected by a fallback, though other responses overtook that one', () => {
  const rejected = (now = 3410);
  reject('b', 'read');
  // Sent before the 403 for another operation was received, so it does not clear that one.
  const late = { ...use('b', 'read'), sentAt: 3432 };
  now = 3511;
  reject('b', 'status');
  now = 3585;
  history.recordAccepted(late);
  // An earlier request whose response comes later.
  now = 3637;
  history.recordAccepted({ ...use('b', 'read'), sentAt: 3408 });
  now = 3689;
  history.recordReplaced([{ key: use('b', 'read').key, rejectedAt: rejected }], 'read');
  accept('a', 'read');
  now = 3800;
  history.recordAccepted({ ...use('b', 'status'), sentAt: 3600 });
  reject('a', 'read');
  expect(pay()).toBe('b');
});

it('an acceptance that was overtaken by a later one of the same key changes nothing', () => {
  const early = use('a', 'read');
  now = 1020;
  accept('a');
  history.recordAccepted(early);
  history.recordReplaced([{ key: early.key, rejectedAt: 1010 }], 'read');
  expect(history.isRejected(early.key)).toBe(false);
});

it('an operation that is no longer enabled calls for a look once nothing was accepted for a second', () => {
  accept('a', 'payment');
  accept('a', 'read');
  now = 1010;
  reject('a', 'read');
  now = 1020;
  const early = { ...use('a', 'payment'), sentAt: 1015 };
  accept('a', 'payment');
  history.recordAccepted(early);
  expect([2_020, 2_021].map((at) => history.isUrgent('read', at))).toEqual([false, true]);
});

it('of keys that are all rejected, payments use the one that rejected a payment first, whatever reads it rejects', () => {
  accept('a');
  for (const key of ['a', 'b']) {
    now += 1;
    reject(key, 'payment', 'single-attempt');
  }
  now += 1;
  reject('a', 'read', 'retryable');
  expect(pay()).toBe('a');
});

it('the rejected payments of a place are forgotten once any key is accepted', () => {
  const rejected = use('b', 'payment');
  history.recordRejectedPayment(rejected, 'here', now);
  expect(history.hasRejectedPayment(rejected.key, 'here')).toBe(true);
  accept('a');
  expect(history.hasRejectedPayment(rejected.key, 'here')).toBe(false);
});

it('the 403 of a payment elsewhere is about the key only if that was sent after the first one', () => {
  const { key } = use('b', 'payment');
  const rejectAt = (place: string, sentAt: number): void =>
    history.recordRejected({ ...use('b', 'payment'), sentAt }, now, 'single-attempt', true, place);
  rejectAt('here', 990);
  rejectAt('there', 1000);
  expect(history.isRejected(key, 'elsewhere')).toBe(false);
  rejectAt('there', 1001);
  expect(history.isRejected(key, 'elsewhere')).toBe(true);
});
