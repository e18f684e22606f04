import type { Action, OperationName, Schedule, Step } from './schedule.ts';

const one = { instances: 1, nodes: 1, logins: 1, maxInFlight: 100_000, canary: false, fresh: 60_000 };

/** Requests of every kind, one of each per interval of the given number of milliseconds. */
function traffic(from: number, to: number, every: number): Step[] {
  const steps: Step[] = [];
  for (let at = from; at < to; at += every) {
    for (const operation of [
      'manager-balance',
      'order-status',
      'pan-eligibility-send',
      'transfer',
    ] as const) {
      steps.push(requestAt(at, operation));
    }
  }
  return steps;
}

function requestAt(at: number, operation: OperationName): Step {
  return { at, action: { do: 'request', instance: 0, operation } };
}

function schedule(
  name: string,
  seed: number,
  to: number,
  actions: readonly (readonly [number, Action])[],
): Schedule {
  const happenings = actions.map(([at, action]) => ({ at, action }));
  const steps = [...happenings, ...traffic(0, to, 50)].toSorted((a, b) => a.at - b.at);
  return { ...one, name, seed, steps };
}

const accept = (control: string, rsa: string): [Action, Action] => [
  { do: 'gateway-accept', kind: 'control_key', keys: [control] },
  { do: 'gateway-accept', kind: 'private_key', keys: [rsa] },
];

const [c2, r2] = accept('c2', 'r2');

/** Regression: 403s continued for 4.3 s after Vault had the key, if the gateway had it first. */
export const gatewayFirst = schedule('the gateway first, Vault 0.7 s later', 1, 8_000, [
  [2_000, c2],
  [2_000, r2],
  [2_700, { do: 'vault-write', control: 'c2', rsa: 'r2' }],
]);

/** Regression: with three different keys in the ring, reads failed. */
export const threeKeys = schedule('three keys in the ring, the gateway takes the middle one', 2, 8_000, [
  [1_000, { do: 'vault-write', control: 'c2', rsa: 'r2' }],
  [1_100, { do: 'vault-write', control: 'c3', rsa: 'r3' }],
  [1_500, { do: 'gateway-shut-out', on: true }],
  [1_600, { do: 'gateway-shut-out', on: false }],
  [3_000, c2],
  [3_000, r2],
]);

/** Regression: while Vault was slow, payments were signed with a key after the first 403 for it. */
export const payments = schedule('the gateway and Vault switch at once, and Vault takes 400 ms', 3, 6_000, [
  [500, { do: 'vault-latency', latency: 400 }],
  [1_990, { do: 'vault-write', control: 'c2', rsa: 'r2' }],
  [2_000, c2],
  [2_000, r2],
]);

/** 403s that are not about the key, between responses that accept it. */
export const disabledPayment = schedule('transfers are disabled for 40 s', 4, 42_000, [
  [1_000, { do: 'gateway-disable', operation: 'transfer', on: true }],
  [41_000, { do: 'gateway-disable', operation: 'transfer', on: false }],
]);

/** One request of each login per interval of the given number of milliseconds, with these operations in turn. */
function steady(
  logins: readonly number[],
  to: number,
  every: number,
  names: readonly OperationName[],
): Step[] {
  return Array.from({ length: to / every }, (_, index) => index).flatMap((index) =>
    logins.map((login): Step => {
      const operation = names[index % names.length] ?? 'transfer';
      return { at: index * every, action: { do: 'request', login, instance: 0, operation } };
    }),
  );
}

const rsaReads = ['order-status', 'order-status-group'] as const;
const healthy = Array.from({ length: 20 }, (_, index) => index + 1);
const storedLate: readonly Step[] = [
  { at: 5_000, action: r2 },
  { at: 125_000, action: { do: 'vault-write', rsa: 'r2' } },
];

/** Regression: reads failed for up to 18 s after Vault had the key, and payments were signed with a rejected one. */
export const storedTwoMinutesLater: Schedule = {
  ...one,
  name: 'the gateway first, Vault two minutes later',
  seed: 6,
  steps: [...storedLate, ...steady([0], 135_000, 200, [...rsaReads, 'transfer'])].toSorted(byTime),
};

/** A login whose keys are all rejected must recover without any read. */
export const paymentsOnly: Schedule = {
  ...storedTwoMinutesLater,
  name: 'payments only, the gateway first, Vault two minutes later',
  steps: [...storedLate, ...steady([0], 135_000, 250, ['transfer'])].toSorted(byTime),
};

/** Regression: requests that waited for one login's keys took the slots of all, for 27 s, and some ended after 35 s. */
export const hungSource: Schedule = {
  ...one,
  name: 'the source hangs, and one of 21 keys is rejected',
  seed: 7,
  logins: 21,
  maxInFlight: 200,
  steps: [
    { at: 2_000, action: { do: 'vault-hang', on: true } } as const,
    { at: 3_000, action: r2 },
    { at: 42_000, action: { do: 'vault-write', rsa: 'r2' } } as const,
    { at: 43_000, action: { do: 'vault-hang', on: false } } as const,
    ...steady([0], 45_000, 25, rsaReads),
    ...steady(healthy, 45_000, 650, rsaReads),
  ].toSorted(byTime),
};

function byTime(a: Step, b: Step): number {
  return a.at - b.at;
}
