import { expect, it } from '@jest/globals';
import { shareTurn } from '../../../src/util/share-turn.ts';

it('work runs once for all calls in one turn, and again for later calls', async () => {
  let done = 0;
  const work = shareTurn(async () => {
    done += 1;
    return done;
  });
  expect(await Promise.all([work(), work(), work()])).toEqual([1, 1, 1]);
  expect(await Promise.all([work(), work()])).toEqual([2, 2]);
});

it('failed work is not shared with later calls', async () => {
  let failing = true;
  const work = shareTurn(async () => {
    if (failing) throw new Error('failed');
  });
  await expect(work()).rejects.toThrow('failed');
  failing = false;
  await expect(work()).resolves.toBeUndefined();
});
