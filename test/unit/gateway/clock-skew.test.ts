import { expect, it } from '@jest/globals';
import { skewOf } from '../../../src/gateway/response.ts';

const noon = Date.UTC(2026, 0, 1, 12);
const date = new Date(noon).toUTCString();

it.each([
  [0, 0],
  [900, 0],
  [1000, 0],
  [1500, -0.5],
  [-1, 0.001],
  [-90_000, 90],
  [91_000, -90],
])('a Date of whole seconds that is %d ms old shows a clock that differs by %d s', (age, skew) => {
  expect(skewOf(date, noon + age)).toBe(skew);
});

it.each([undefined, '', 'yesterday'])('without a valid Date (%s) the difference is unknown', (text) => {
  expect(skewOf(text, noon)).toBeUndefined();
});
