import { expect, it } from '@jest/globals';
import { generate } from '../../rotation-model/generate.ts';
import { run } from '../../rotation-model/run.ts';
import {
  disabledPayment,
  gatewayFirst,
  payments,
  threeKeys,
  withCanary,
  withoutCanary,
} from '../../rotation-model/scenarios.ts';
import { isPayment, type Schedule } from '../../rotation-model/schedule.ts';

/** Nodes that accept different keys, and responses that overtake each other. */
it.each([
  1001958, 20029569, 20035290, 21013817, 21043901, 3009703, 3010466, 3010716, 3013077, 3014247, 3014379,
  31008398, 31009321, 31014661, 32005189, 32010870, 5002562, 52021761, 53023820, 53045583, 72001387, 72012843,
  82029750, 81035260,
])('keeps its rules in schedule %d', async (seed) => {
  expect((await run(generate(seed))).violations).toEqual([]);
});

/** Start times of the requests that ended with 403. */
async function rejected(schedule: Schedule, which: (operation: string) => boolean): Promise<number[]> {
  const { ended } = await run(schedule);
  return ended
    .filter(({ operation, end }) => which(operation) && end === 403)
    .map(({ startedAt }) => startedAt);
}

const isRead = (operation: string): boolean => !isPayment(operation);

it.each([gatewayFirst, threeKeys, payments, disabledPayment, withCanary, withoutCanary])(
  'keeps its rules: $name',
  async (schedule) => {
    expect((await run(schedule)).violations).toEqual([]);
  },
);

it('reads succeed 1 s after Vault has the key, if the gateway had it first', async () => {
  const failed = await rejected(gatewayFirst, isRead);
  expect(Math.min(...failed)).toBeGreaterThanOrEqual(1_950);
  expect(Math.max(...failed)).toBeLessThan(2_700 + 1_000);
});

it('no read fails if the gateway accepts one of three different keys', async () => {
  expect((await rejected(threeKeys, isRead)).filter((at) => at > 1_700)).toEqual([]);
});

it('only payments in flight at the switch fail', async () => {
  const failed = await rejected(payments, isPayment);
  // 40 ms at most for the signature and the round trip to the gateway.
  expect(failed.filter((at) => at < 1_960 || at > 2_040)).toEqual([]);
  expect(failed.length).toBeLessThanOrEqual(2);
});

it('payments fail at the switch without a canary, and none with one', async () => {
  expect((await rejected(withoutCanary, isPayment)).length).toBe(2);
  expect(await rejected(withCanary, isPayment)).toEqual([]);
});

it('Vault is read only in the steps of the back-off if only an operation is rejected', async () => {
  const { counts } = await run(disabledPayment);
  expect(counts.of('reads of Vault past the cache')).toBeLessThanOrEqual(10);
});
