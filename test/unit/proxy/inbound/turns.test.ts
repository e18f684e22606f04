import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { Turns } from '../../../../src/proxy/inbound/connection.ts';

it('does sixteen steps in each turn of the event loop, in order, and those that steps add after them', async () => {
  const turns = new Turns();
  const done: number[] = [];
  const step = (index: number): void => {
    done.push(index);
    if (index < 40) turns.wait(() => step(index + 40));
  };
  for (let index = 0; index < 40; index += 1) turns.wait(() => step(index));
  expect(done).toEqual([]);
  const counts: number[] = [];
  for (let turn = 0; turn < 6; turn += 1) {
    await nextTurn();
    counts.push(done.length);
  }
  expect(counts).toEqual([16, 32, 48, 64, 80, 80]);
  expect(done).toEqual(Array.from({ length: 80 }, (_, index) => index));
});
