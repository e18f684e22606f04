import { expect, it } from '@jest/globals';
import { simulate } from './simulation.ts';

const kinds = [
  'answered 200',
  'answered 403',
  'died',
  'not-sent claims-unavailable',
  'not-sent overloaded',
  'unknown duplicate-payment',
  'unknown gateway-reset',
];

it.each([1, 2, 3, 4, 5])('no payment is sent twice, and no outcome is a lie: seed %d', async (seed) => {
  const { doubled, lies, outcomes } = await simulate({ seed, posts: 4_000 });
  expect(lies).toEqual([]);
  expect(doubled).toBe(0);
  // All that may happen did happen.
  expect(Object.keys(outcomes).toSorted()).toEqual(kinds);
});

it('a store that loses writes lets payments through twice, and no others', async () => {
  const { doubled, doubledAfterLoss, lies } = await simulate({ seed: 1, posts: 20_000, losesWrites: 0.01 });
  expect(lies).toEqual([]);
  expect(doubled).toBeGreaterThan(0);
  expect(doubled).toBe(doubledAfterLoss);
});

it.each(['compares', 'one step'] as const)(
  'the simulation finds a store that breaks a rule: %s',
  async (breaks) => {
    expect((await simulate({ seed: 1, posts: 4_000, breaks })).doubled).toBeGreaterThan(0);
  },
);
