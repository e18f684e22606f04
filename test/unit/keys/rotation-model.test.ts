import { expect, it } from '@jest/globals';
import { generate } from '../../rotation-model/generate.ts';
import { run } from '../../rotation-model/run.ts';
import type { Family } from '../../rotation-model/schedule.ts';

async function expectKept(seed: number, family?: Family): Promise<void> {
  const { violations, timeline } = await run(generate(seed, family));
  if (violations.length > 0) throw new Error([`seed ${seed}`, ...timeline, ...violations].join('\n'));
}

/** With earlier rules, a promise was broken in each of these. */
it.each<[string, Family, number]>([
  ['of the queries in flight at a rotation each is signed again', 'ordinary', 1044],
  ['a late rejection of the key before is no reason to try that again', 'ordinary', 1229],
  ['a rejected query also tries the key that a look brings meanwhile', 'ordinary', 1432],
  ['the same beside a caller with rejected requests', 'hostile', 1295],
  ['an error in a late answer does not move the current key back', 'odd', 51],
])('%s', (_title, family, seed) => expectKept(seed, family));

it('keeps its promises in 100 schedules', async () => {
  for (let seed = 1; seed <= 100; seed += 1) await expectKept(seed);
});

it('runs the same schedule in the same way again', async () => {
  const [first, second] = [await run(generate(7)), await run(generate(7))];
  expect(second.timeline).toEqual(first.timeline);
});
