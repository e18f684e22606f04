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
  expect(skewOf(date, { sentAt: noon + age, receivedAt: noon + age })).toBe(skew);
});

it.each([undefined, '', 'yesterday'])('without a valid Date (%s) the difference is unknown', (text) => {
  expect(skewOf(text, { sentAt: noon, receivedAt: noon })).toBeUndefined();
});

it('a slow response shows no other clock, whether its Date is of its beginning or of its end', () => {
  for (const sentAt of [noon - 25_000, noon - 1, noon, noon + 1_000]) {
    expect(skewOf(date, { sentAt, receivedAt: sentAt + 25_000 })).toBe(0);
  }
  expect(skewOf(date, { sentAt: noon + 61_000, receivedAt: noon + 86_000 })).toBe(-60);
  expect(skewOf(date, { sentAt: noon - 85_000, receivedAt: noon - 60_000 })).toBe(60);
});
