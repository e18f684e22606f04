import { beforeEach, expect, it } from '@jest/globals';
import type { LoginRef } from '../../../src/keys/login-ref.ts';
import { Looks } from '../../../src/keys/looks.ts';

let now: number;
/** Name of the login of each look, and when it began. */
let begun: { readonly login: string; readonly at: number }[];
let respond: () => void;
let looks: Looks;

beforeEach(() => {
  [now, begun] = [0, []];
  const slow = new Promise<undefined>((resolve) => {
    respond = () => resolve(undefined);
  });
  looks = new Looks({
    monotonic: () => now,
    look: async ({ login }) => {
      begun.push({ login, at: now });
      return login === 'slow' ? slow : undefined;
    },
  });
});

const refOf = (login: string | number): LoginRef => ({ environment: 'sandbox', login: String(login) });

/** Requests of each login every 50 ms. */
async function requests(logins: number, milliseconds: number): Promise<void> {
  for (const end = now + milliseconds; now < end; now += 50) {
    for (let login = 0; login < logins; login += 1) {
      const ref = refOf(login);
      if (looks.recent(ref) === undefined && looks.isDue(ref, true)) looks.begin(ref);
    }
    await Promise.resolve();
  }
}

/** The most looks that began within one second. */
const mostInASecond = (): number =>
  Math.max(...begun.map(({ at }) => begun.filter((one) => one.at >= at && one.at < at + 1_000).length));

/** The longest time between two looks at the same login. */
function longestGap(): number {
  const gaps = [...Map.groupBy(begun, ({ login }) => login).values()].flatMap((ofOne) =>
    ofOne.slice(1).map(({ at }, index) => at - (ofOne[index]?.at ?? 0)),
  );
  return Math.max(...gaps);
}

it('each of 20 logins is looked at once a second', async () => {
  await requests(20, 20_000);
  expect(begun).toHaveLength(20 * 20);
  expect(longestGap()).toBe(1_000);
  expect(looks.interval).toBe(1);
});

it('more than 30 logins take turns, at most 30 a second in all', async () => {
  await requests(90, 30_000);
  expect(mostInASecond()).toBeLessThanOrEqual(30);
  expect(new Set(begun.map(({ login }) => login)).size).toBe(90);
  // 90 logins at 30 a second: 3 s, plus one round of requests.
  expect(longestGap()).toBeLessThanOrEqual(3_100);
  expect(looks.interval).toBe(3);
});

it('logins that need no look anymore are not counted', async () => {
  await requests(60, 5_000);
  expect(looks.interval).toBe(2);
  await requests(1, 6_000);
  expect(looks.interval).toBe(1);
});

it('logins of which each has its turn every ten seconds are counted for two of these', () => {
  for (let login = 0; login < 300; login += 1) looks.isDue(refOf(login), true);
  now += 19_999;
  expect(looks.interval).toBe(10);
  now += 1;
  expect(looks.interval).toBe(1);
});

it('the interval is shown also when there are no more requests', async () => {
  await requests(60, 1_000);
  expect(looks.interval).toBe(2);
  now += 60_000;
  expect(looks.interval).toBe(1);
});

it('no look begins while one at the same login is in flight', async () => {
  const first = looks.begin(refOf('slow'));
  now = 10_000;
  expect(looks.recent(refOf('slow'))).toBe(first);
  now = 40_000;
  looks.begin(refOf('other'));
  expect(looks.recent(refOf('slow'))).toBe(first);
  respond();
  await first.ring;
  expect(looks.recent(refOf('slow'))).toBeUndefined();
});

it('a failed look counts as well, and is due again after a second', async () => {
  const failing = new Looks({
    monotonic: () => now,
    look: () => Promise.reject(new Error('down')),
  });
  await failing.begin(refOf(1)).ring.catch(() => {});
  expect(failing.isDue(refOf(1), true)).toBe(false);
  now = 1_000;
  expect(failing.recent(refOf(1))).toBeUndefined();
  expect(failing.isDue(refOf(1), true)).toBe(true);
});

it('a login whose look is not urgent has one in 30 s, also while others need theirs', async () => {
  const patient = refOf('patient');
  looks.begin(patient);
  for (const milliseconds of [10_000, 10_000, 9_950]) {
    await requests(3, milliseconds);
    expect(looks.isDue(patient, false)).toBe(false);
  }
  await requests(3, 50);
  expect(looks.isDue(patient, false)).toBe(true);
});

it('a reset makes each login due at once', async () => {
  await requests(3, 100);
  looks.reset();
  expect([0, 1, 2].map((login) => looks.isDue(refOf(login), false))).toEqual([true, true, true]);
});
