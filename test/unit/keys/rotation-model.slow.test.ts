import { it } from '@jest/globals';
import { generate } from '../../rotation-model/generate.ts';
import { generateAbsences, generateLogins, generatePauses } from '../../rotation-model/generate-slow.ts';
import { run } from '../../rotation-model/run.ts';

/** `npm run rotation-model -- --schedules 100000` runs more of them. */
it.each([
  { family: 'rotations', schedules: 700, generator: generate },
  { family: 'pauses', schedules: 500, generator: generatePauses },
  { family: 'logins', schedules: 250, generator: generateLogins },
  { family: 'absences', schedules: 500, generator: generateAbsences },
])(
  'keeps its rules in $schedules schedules of $family',
  async ({ schedules, generator }) => {
    for (let seed = 1; seed <= schedules; seed += 1) {
      const { violations, timeline } = await run(generator(seed));
      if (violations.length > 0) throw new Error([`seed ${seed}`, ...timeline, ...violations].join('\n'));
    }
  },
  240_000,
);
