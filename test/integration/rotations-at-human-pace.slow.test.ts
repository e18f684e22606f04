import { expect, it } from '@jest/globals';
import { violationsOf } from '../rotations/judge.ts';
import { gateways, type Options, orders } from '../rotations/options.ts';
import { run } from '../rotations/run.ts';
import { describeWith } from '../support/requires.ts';

const options: Options = {
  instances: 2,
  pauses: [0, 5],
  orders: [...orders],
  gateways: ['plain'],
  traffic: 'mixed',
  callers: 2,
  latency: 20,
  disturbance: 'none',
  row: undefined,
  seed: 1,
  rate: 60,
  vault: undefined,
  program: undefined,
};
const runs: readonly (readonly [string, Partial<Options>])[] = [
  ['with gateways that answer in odd ways', { gateways: [...gateways] }],
  ['with payments alone', { traffic: 'payments', orders: ['Vault first'] }],
  [
    'while Vault hangs now and then',
    { disturbance: 'hung', pauses: [0, 1], orders: ['both at once', 'gateway first'] },
  ],
];

/** At the same time. With longer pauses, more instances and other events: `npm run rotations`. */
describeWith('openssl')('rotations in any order, seconds apart (needs the program openssl),', () => {
  it.concurrent.each(runs)(
    '%s, cost no more than promised',
    async (_, some) => {
      const result = await run({ ...options, ...some });
      expect(violationsOf(result)).toEqual([]);
      expect(Math.min(...result.costs.map(({ reads, payments }) => reads + payments))).toBeGreaterThan(20);
    },
    120_000,
  );
});
