import { expect, it } from '@jest/globals';
import { simulate } from './simulation.ts';

const kinds = [
  'answered 200',
  'answered 403',
  'died',
  'not-sent claims-unavailable',
  'not-sent gateway-timeout',
  'not-sent order-id-reused',
  'not-sent overloaded',
  'not-sent shutting-down',
  'unknown duplicate-payment',
  'unknown gateway-reset',
  'unknown shutting-down',
];

it.each([1, 2])('no payment is sent twice, and no outcome is a lie: seed %d', async (seed) => {
  const { doubled, lies, outcomes, sentLater } = await simulate({ seed, posts: 4_000 });
  expect(lies).toEqual([]);
  expect(doubled).toBe(0);
  // All that may happen did happen.
  expect(Object.keys(outcomes).toSorted()).toEqual(kinds);
  expect(sentLater).toBeGreaterThan(0);
});

it('no claim of what was not sent is left, whatever ends, where the store responds', async () => {
  const { left, doubled, lies } = await simulate({ seed: 1, posts: 3_000, fails: 0 });
  expect({ left, doubled, lies }).toEqual({ left: 0, doubled: 0, lies: [] });
});
