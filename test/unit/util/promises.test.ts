import { expect, it } from '@jest/globals';
import { SingleFlight } from '../../../src/util/promises.ts';

it('shares a run with the calls that come during it, also its failure, and begins a new one after it', async () => {
  const flight = new SingleFlight<number>();
  const { promise, reject } = Promise.withResolvers<number>();
  const first = flight.run(() => promise);
  const second = flight.run(() => Promise.resolve(2));
  expect([flight.running, second]).toEqual([first, first]);
  reject(new Error('failed'));
  await expect(second).rejects.toThrow('failed');
  expect(flight.running).toBeUndefined();
  expect(await flight.run(() => Promise.resolve(3))).toBe(3);
});
