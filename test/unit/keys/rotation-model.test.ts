import { it } from '@jest/globals';
import { generate } from '../../rotation-model/generate.ts';
import { run } from '../../rotation-model/run.ts';

it('keeps its promises in 40 schedules', async () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const { violations, timeline } = await run(generate(seed));
    if (violations.length > 0) throw new Error([`seed ${seed}`, ...timeline, ...violations].join('\n'));
  }
}, 120_000);
