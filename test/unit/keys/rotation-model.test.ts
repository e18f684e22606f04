import { expect, it } from '@jest/globals';
import { generate } from '../../rotation-model/generate.ts';
import { generateAbsences, generateLogins, generatePauses } from '../../rotation-model/generate-slow.ts';
import { run } from '../../rotation-model/run.ts';
import {
  disabledPayment,
  gatewayFirst,
  hungSource,
  payments,
  paymentsOnly,
  storedTwoMinutesLater,
  threeKeys,
} from '../../rotation-model/scenarios.ts';
import { isPayment, type Schedule } from '../../rotation-model/schedule.ts';

/** Nodes that accept different keys, and responses that overtake each other. */
it.each([
  114127, 5003323, 5037962, 1001958, 20029569, 20035290, 21013817, 21043901, 3009703, 3010466, 3010716,
  3013077, 3014247, 3014379, 31008398, 31009321, 31014661, 32005189, 32010870, 5002562, 52021761, 53023820,
  53045583, 72001387, 72012843, 82029750, 81035260,
])('keeps its rules in schedule %d', async (seed) => {
  expect((await run(generate(seed))).violations).toEqual([]);
});

it('requests at once may take the accepted key after 403s of clock skew, which say nothing about it', async () => {
  expect((await run(generate(5083334))).violations).toEqual([]);
});

it('a key that is accepted again after another one says nothing about other operations, so that Vault is read', async () => {
  expect((await run(generate(5064224))).violations).toEqual([]);
});

/**
 * On earlier rules: reads that failed long after Vault had the key (7, 8, 35, 42), payments signed with keys known to be
 * rejected (5, 28), requests that waited for a failing source (10, 40) or ended after their timeout (133).
 */
it.each([5, 7, 8, 10, 28, 35, 40, 42, 133])(
  'keeps its rules at the pace of people, schedule %d',
  async (seed) => {
    expect((await run(generatePauses(seed))).violations).toEqual([]);
  },
);

/**
 * On earlier rules: healthy logins without slots (4, 24, 73), requests that ended after their timeout (8, 62), more than
 * 30 looks in a second (20, 47), reads that failed long after Vault had the key (3, 87).
 */
it.each([3, 4, 8, 20, 24, 47, 62, 73, 87])('keeps its rules with many logins, schedule %d', async (seed) => {
  expect((await run(generateLogins(seed))).violations).toEqual([]);
});

/**
 * With wrong rules: a 404 removes the cached keys (5, 11, 17; of a look: 39, 52), a denial does (1, 2, 4), a deleted version
 * signs (18, 30, 131) or all do (15, 21, 26), an outdated ring is not read (63, 66), a denied login is not read (1, 2, 43,
 * 72), the newest version alone stops the login (37, 44, 83), looks are rare (29, 56).
 */
it.each([1, 2, 4, 5, 11, 15, 17, 18, 21, 26, 29, 30, 37, 39, 43, 44, 52, 56, 63, 66, 72, 83, 131])(
  'keeps its rules while logins are absent from Vault, schedule %d',
  async (seed) => {
    expect((await run(generateAbsences(seed))).violations).toEqual([]);
  },
);

/** Start times of the requests that ended with 403. */
async function rejected(schedule: Schedule, which: (operation: string) => boolean): Promise<number[]> {
  const { ended } = await run(schedule);
  return ended
    .filter(({ operation, end }) => which(operation) && end === 403)
    .map(({ startedAt }) => startedAt);
}

const isRead = (operation: string): boolean => !isPayment(operation);

it.each([
  gatewayFirst,
  threeKeys,
  payments,
  disabledPayment,
  storedTwoMinutesLater,
  paymentsOnly,
  hungSource,
])('keeps its rules: $name', async (schedule) => {
  expect((await run(schedule)).violations).toEqual([]);
});

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

it('Vault is read only in the steps of the back-off if only an operation is rejected', async () => {
  const { counts } = await run(disabledPayment);
  expect(counts.of('reads of Vault past the cache')).toBeLessThanOrEqual(10);
});

it('reads succeed 2 s after a person stored the key, two minutes after the gateway switched', async () => {
  const failed = await rejected(storedTwoMinutesLater, isRead);
  expect(Math.max(...failed)).toBeLessThan(125_000 + 2_000);
});

it('while every key is rejected, one payment per step is sent; the next one succeeds 2 s after Vault has the key', async () => {
  const { ended } = await run(paymentsOnly);
  const duringRejection = ended.filter(({ startedAt }) => startedAt >= 5_000 && startedAt < 125_000);
  // The payment in flight, and those after 0, 1, 3, 7, 15, 31, 61, 91 s.
  expect(duringRejection.filter(({ end }) => end === 403).length).toBeLessThanOrEqual(9);
  expect(duringRejection.filter(({ end }) => end === 'key-rejected').length).toBeGreaterThan(400);
  const afterwards = ended.filter(({ startedAt }) => startedAt >= 127_000);
  expect(new Set(afterwards.map(({ end }) => end))).toEqual(new Set([200]));
});

it('a hung source and one rejected key cost the other logins nothing, and each request ends in time', async () => {
  const { ended } = await run(hungSource);
  const ofOthers = ended.filter(({ login }) => login !== 'acme');
  expect(new Set(ofOthers.map(({ end }) => end))).toEqual(new Set([200]));
  expect(Math.max(...ended.map(({ startedAt, endedAt }) => endedAt - startedAt))).toBeLessThanOrEqual(30_000);
  expect(ended.at(-1)).toMatchObject({ end: 200 });
});
