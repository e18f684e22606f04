import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { parseKeys } from '../../../src/keys/key.ts';
import { KeyHistory } from '../../../src/keys/key-history.ts';
import { KeySelector } from '../../../src/keys/key-selector.ts';
import { describeKeys } from '../../../src/keys/key-state.ts';
import { distinctKeys, type KeyRing, type UsableKey } from '../../../src/keys/ring.ts';

const gracePeriod = 1000;
const now = 1e12;

/** Newest first, numbered from 1; an empty key is unusable. */
function ringOf(...controlKeys: string[]): KeyRing {
  return controlKeys.flatMap((key, index) => {
    const superseded = index === 0 ? {} : { supersededAt: new Date(now - gracePeriod) };
    return parseKeys({ control_key: key }, { version: controlKeys.length - index, ...superseded });
  });
}

let ring: KeyRing;
let history: KeyHistory;
let time: number;
beforeEach(() => {
  history = new KeyHistory();
  time = 0;
});

function has(...controlKeys: string[]): void {
  ring = ringOf(...controlKeys);
  const [newest, ...others] = distinctKeys(ring);
  if (newest !== undefined) history.observe([newest, ...others]);
}

function keyOf(version: number): UsableKey {
  const key = distinctKeys(ring).find((one) => one.version === version);
  if (key === undefined) throw new TypeError(`no version ${version}`);
  return key;
}

function accept(version: number, operation = 'read'): void {
  history.recordAccepted({ key: keyOf(version), operation, sentAt: (time += 1) });
}

function reject(
  version: number,
  policy: 'retryable' | 'single-attempt' = 'retryable',
  operation = 'read',
): void {
  const use = { key: keyOf(version), operation, sentAt: (time += 1) };
  history.recordRejected(use, time, policy, true);
}

/** A query is sent with each key. */
function rejectAll(operation = 'read'): void {
  const [since, keys] = [time, distinctKeys(ring)];
  for (const { version } of keys) reject(version, 'retryable', operation);
  history.recordNoKeyAccepted(operation, keys, since);
}

/** Such as `3 waiting, 2 in-use; 2 signs`. */
function described(at = now): string {
  const { versions, signing } = describeKeys(ring, history, at, gracePeriod);
  const states = versions.map(({ entry, state }) => `${entry.version} ${state}`);
  return `${states.join(', ')}; ${signing?.version ?? 'none'} signs`;
}

describe('a login', () => {
  it('with one key uses it', () => {
    has('a');
    expect(described()).toBe('1 in-use; 1 signs');
    accept(1);
    expect(described()).toBe('1 in-use; 1 signs');
  });

  it('with several keys of which nothing is known uses the newest', () => {
    has('b', 'a');
    expect(described()).toBe('2 in-use, 1 replaced; 2 signs');
  });

  it('whose only key was rejected has no other one to sign with', () => {
    has('a');
    accept(1);
    reject(1);
    expect(described()).toBe('1 rejected; 1 signs');
  });

  it('whose keys were all rejected has none in use', () => {
    has('b', 'a');
    reject(2, 'single-attempt');
    reject(1, 'single-attempt');
    expect(described()).toBe('2 rejected, 1 rejected; 2 signs');
  });

  it('whose keys were all rejected by a query, which tries each, has none in use either', () => {
    has('b', 'a');
    accept(2);
    rejectAll();
    rejectAll();
    expect(described()).toBe('2 rejected, 1 rejected; 2 signs');
    accept(2);
    expect(described()).toBe('2 in-use, 1 rejected; 2 signs');
  });

  it.each([
    ['not enabled for it', () => {}],
    ['no longer enabled for it', () => accept(1, 'transfer')],
  ])('uses its key although an operation is %s', (_name, before) => {
    has('a');
    before();
    accept(1);
    for (let count = 0; count < 3; count += 1) {
      rejectAll('transfer');
      if (count === 0) accept(1);
      expect(described()).toBe('1 in-use; 1 signs');
    }
    rejectAll();
    expect(described()).toBe('1 rejected; 1 signs');
  });

  it('without a usable key signs with none', () => {
    has('');
    expect(described()).toBe('1 unusable; none signs');
  });
});

describe('a rotation', () => {
  it('is seen step by step if the source has the key first', () => {
    has('a');
    accept(1);
    has('b', 'a');
    expect(described()).toBe('2 waiting, 1 in-use; 1 signs');
    reject(2);
    accept(1);
    expect(described()).toBe('2 waiting, 1 in-use; 1 signs');
    reject(1);
    accept(2);
    expect(described()).toBe('2 in-use, 1 rejected; 2 signs');
  });

  it('is seen step by step if the gateway has the key first', () => {
    has('a');
    accept(1);
    reject(1);
    expect(described()).toBe('1 rejected; 1 signs');
    has('b', 'a');
    expect(described()).toBe('2 in-use, 1 rejected; 2 signs');
    accept(2);
    expect(described()).toBe('2 in-use, 1 rejected; 2 signs');
  });

  it('during which the gateway accepts both keys ends with the older one replaced', () => {
    has('a');
    accept(1);
    has('b', 'a');
    accept(2);
    expect(described()).toBe('2 in-use, 1 replaced; 2 signs');
  });

  it('to a key that the gateway then rejects returns to the older one', () => {
    has('b', 'a');
    accept(2);
    reject(2);
    expect(described()).toBe('2 rejected, 1 in-use; 1 signs');
  });

  it('to an unusable key keeps the older one in use', () => {
    has('', 'a');
    expect(described()).toBe('2 unusable, 1 in-use; 1 signs');
  });

  it('back to an earlier key counts its versions as one key', () => {
    has('a', 'b', 'a');
    expect(described()).toBe('3 in-use, 2 replaced; 3 signs');
  });

  it('ends for good with the grace period: older keys sign no more', () => {
    has('b', 'a');
    accept(1);
    expect(described()).toBe('2 waiting, 1 in-use; 1 signs');
    expect(described(now + 1)).toBe('2 in-use, 1 replaced; 2 signs');
  });
});

describe('the selector', () => {
  const acme = { environment: 'sandbox', login: 'acme' };
  let selector: KeySelector;
  beforeEach(() => {
    ring = ringOf('b', 'a');
    selector = new KeySelector({
      keys: {
        get: async () => ring,
        cached: () => ring,
        look: async () => ring,
        isFailing: () => false,
        keep: () => {},
      },
      metrics: { keyFallback: () => {}, keyProblem: () => {} },
      clock: () => now,
      monotonic: () => (time += 1),
      setTimer: () => () => {},
      rotationGracePeriod: gracePeriod,
    });
  });

  it('describes what it learned of this login and kind', async () => {
    const older = keyOf(1);
    const keys = await selector.keysOf(acme, 'control_key');
    keys.recordAccepted({ key: older, operation: 'read', sentAt: 1 });
    expect(selector.describe(acme, 'control_key', ring).signing?.version).toBe(1);
    expect(selector.describe({ ...acme, login: 'other' }, 'control_key', ring).signing?.version).toBe(2);
    expect(selector.describe(acme, 'private_key', ring)).toEqual({ versions: [], signing: undefined });
  });

  it('keeps nothing about the logins that it describes', async () => {
    const reset = jest.spyOn(KeyHistory.prototype, 'resetSteps');
    for (let index = 0; index < 50; index += 1) {
      selector.describe({ ...acme, login: `login-${index}` }, 'control_key', ring);
    }
    selector.lookAgain();
    expect(reset).not.toHaveBeenCalled();
    // A login that is used is one of those that it remembers.
    await selector.keysOf(acme, 'control_key');
    reset.mockClear();
    selector.lookAgain();
    expect(reset).toHaveBeenCalledTimes(1);
    reset.mockRestore();
  });
});
