import { expect, it } from '@jest/globals';
import { violationsOf } from '../rotations/judge.ts';
import { run } from '../rotations/run.ts';
import { describeWith } from '../support/requires.ts';

const options = {
  instances: 2,
  pauses: [0, 5],
  row: undefined,
  seed: 1,
  rate: 100,
  vault: undefined,
  program: undefined,
};

/** With longer pauses, more instances and other events: `npm run rotations`. */
describeWith('openssl')('rotations in either order, seconds apart (needs the program openssl),', () => {
  it.each(['none', 'sighup', 'hung'] as const)(
    'with this happening meanwhile: %s',
    async (disturbance) => {
      const result = await run({ ...options, disturbance });
      expect(violationsOf(result)).toEqual([]);
      expect(Math.min(...result.costs.map(({ reads }) => reads))).toBeGreaterThan(20);
    },
    120_000,
  );
});
