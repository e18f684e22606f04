import { expect, it } from '@jest/globals';
import { parseKeys } from '../../../src/keys/key.ts';
import { KeyHistory, type RetryPolicy, type UsableKeys } from '../../../src/keys/key-history.ts';
import { usableKeys } from '../../../src/keys/ring.ts';

const acme = { environment: 'sandbox', login: 'acme' };
const two = ring('newest', 'older');

/** Newest first. */
function ring(...controlKeys: [string, ...string[]]): UsableKeys {
  const all = controlKeys.flatMap((key, index) => {
    const superseded = index === 0 ? {} : { supersededAt: new Date(0) };
    return parseKeys({ control_key: key }, { version: controlKeys.length - index, ...superseded });
  });
  return usableKeys(acme, all, 'control_key', 1, 86_400_000);
}

/** Why the key is selected that is selected, after these responses. */
function reason(
  keys: UsableKeys,
  policy: RetryPolicy,
  responses: readonly (readonly ['accepted' | 'rejected', version: number])[] = [],
): string {
  const history = new KeyHistory();
  history.observe(keys);
  for (const [sentAt, [response, version]] of responses.entries()) {
    const key = keys.find((one) => one.version === version);
    if (key === undefined) throw new TypeError(`no version ${version}`);
    const use = { key, operation: 'read', sentAt };
    if (response === 'accepted') history.recordAccepted(use);
    else history.recordRejected(use, sentAt, policy, true);
  }
  const key = history.select(keys, policy);
  return `${key.version} ${history.reasonFor(key)}`;
}

it('a login with one key has no choice', () => {
  expect(reason(ring('one'), 'single-attempt')).toBe('1 only-key');
});

it('without any response the newest is selected since nothing speaks against it', () => {
  expect(reason(two, 'single-attempt')).toBe('2 newest');
});

it('a payment stays on the key that was accepted last', () => {
  expect(reason(two, 'single-attempt', [['accepted', 1]])).toBe('1 last-accepted');
});

it('a read goes back to the key that was accepted, once the newest was rejected', () => {
  const responses = [
    ['rejected', 2],
    ['accepted', 1],
  ] as const;
  expect(reason(two, 'retryable', responses)).toBe('1 last-accepted');
});

it('a payment leaves a newest key that was rejected, and any key where all were', () => {
  expect(reason(two, 'single-attempt', [['rejected', 2]])).toBe('1 newer-rejected');
  const all = [
    ['rejected', 2],
    ['rejected', 1],
  ] as const;
  expect(reason(two, 'single-attempt', all)).toBe('2 none-accepted');
});
