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
});
