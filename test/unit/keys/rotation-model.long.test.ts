import { it } from '@jest/globals';
import { generate } from '../../rotation-model/generate.ts';
import { run } from '../../rotation-model/run.ts';

/** `npm run rotation-model -- --schedules 100000` runs more of them. */
const schedules = 2_000;

it(`keeps its rules in ${schedules} schedules`, async () => {
  for (let seed = 1; seed <= schedules; seed += 1) {
    const { violations, timeline } = await run(generate(seed));
    if (violations.length > 0) throw new Error([`seed ${seed}`, ...timeline, ...violations].join('\n'));
  }
}, 240_000);
