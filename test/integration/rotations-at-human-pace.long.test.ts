import { expect, it } from '@jest/globals';
import { violationsOf } from '../rotations/judge.ts';
import { run } from '../rotations/run.ts';
import { describeWith } from '../support/requires.ts';

/** With longer pauses, more instances and other events: `npm run rotations`. */
describeWith('openssl')('rotations in either order, seconds apart (needs the program openssl),', () => {
  it.each(['none', 'sighup', 'hung'] as const)(
    'with this happening meanwhile: %s',
    async (disturbance) => {
      const options = { instances: 2, pauses: [0, 5], disturbance, canary: false, vault: undefined };
      const { costs, mostReads } = await run(options);
      expect(costs.flatMap(violationsOf)).toEqual([]);
      expect(Math.min(...costs.map(({ reads }) => reads))).toBeGreaterThan(20);
      expect(mostReads).toBeLessThanOrEqual(30);
    },
    120_000,
  );
});
