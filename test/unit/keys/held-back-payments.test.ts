import { expect, it } from '@jest/globals';
import { HeldBackPayments } from '../../../src/keys/held-back-payments.ts';

it('a hundred places have steps of their own, also when all are known, and further ones share theirs', () => {
  const heldBack = new HeldBackPayments();
  const reject = (place: string): void => heldBack.recordRejected(heldBack.nameOf(place), true, 0);
  for (let index = 0; index < 100; index += 1) reject(`place ${index}`);
  expect(heldBack.probe('further', 0)).toHaveProperty('end');
  reject('place 7');
  expect(heldBack.probe('further', 0)).toHaveProperty('end');
  reject('further');
  expect(heldBack.probe('another', 0)).toEqual(expect.any(Number));
  // Each waits for the result of its own.
  expect(['further', 'another'].map((place) => heldBack.probeOf(place))).toEqual([
    expect.any(Promise),
    undefined,
  ]);
});

it('an acceptance ends the steps of each place, and others may have steps of their own', () => {
  const heldBack = new HeldBackPayments();
  const reject = (place: string): void => heldBack.recordRejected(heldBack.nameOf(place), true, 0);
  for (let index = 0; index < 100; index += 1) reject(`place ${index}`);
  expect([heldBack.isEmpty, heldBack.probe('place 7', 0)]).toEqual([false, 2_000]);
  heldBack.recordAccepted();
  expect([heldBack.isEmpty, heldBack.probe('place 7', 0)]).toEqual([true, expect.any(Object)]);
  reject('other');
  expect(heldBack.probe('another', 0)).toHaveProperty('end');
});

it('what is sent beside the payment that probes a key does not take its place', async () => {
  const heldBack = new HeldBackPayments();
  heldBack.recordRejected('place', false, 0);
  const [first, result] = [heldBack.probe('place', 0), heldBack.probeOf('place')];
  const second = heldBack.probe('place', 0);
  if (typeof first === 'number' || typeof second === 'number') throw new TypeError('it is held back');
  second.end();
  expect(heldBack.probeOf('place')).toBe(result);
  first.end();
  expect(heldBack.probeOf('place')).toBeUndefined();
  await result;
});
