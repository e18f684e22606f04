import { expect, it } from '@jest/globals';
import type { Options } from '../rotations/rotation.ts';
import { run } from '../rotations/run.ts';

/** At the same time. */
it.concurrent.each<Options>([
  { pauses: [0, 5], orders: ['both at once', 'Vault first', 'gateway first', 'overlap'], traffic: 'mixed' },
  { pauses: [5], orders: ['Vault first'], traffic: 'payments' },
])(
  'rotations in any order, seconds apart, cost no more than promised: %j',
  async (options) => {
    expect(await run(options)).toEqual([]);
  },
  120_000,
);
