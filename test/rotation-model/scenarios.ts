import type { Action, OperationName, Schedule, Step } from './schedule.ts';

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
  return { name, seed, instances: 1, nodes: 1, canary: false, fresh: 60_000, steps };
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

const rotation: readonly (readonly [number, Action])[] = [
  [1_000, { do: 'vault-write', control: 'c2', rsa: 'r2' }],
  [8_000, c2],
  [8_000, r2],
];
/** Rarely enough that each has its own canary. */
const paymentsAlone: readonly Step[] = Array.from({ length: 20 }, (_, index) => index * 600 + 100).flatMap(
  (at) => (['transfer', 'pan-eligibility-send'] as const).map((operation) => requestAt(at, operation)),
);

/** Of one instance that has both keys before the gateway switches. */
function rotationWith(canary: boolean): Schedule {
  const name = `Vault first, the gateway 7 s later, ${canary ? 'with' : 'without'} the canary`;
  const happenings = rotation.map(([at, action]) => ({ at, action }));
  const steps = [...happenings, ...paymentsAlone].toSorted((a, b) => a.at - b.at);
  return { name, seed: 5, instances: 1, nodes: 1, canary, fresh: 2_000, steps };
}

/** With the canary, no payment fails. */
export const withCanary = rotationWith(true);
export const withoutCanary = rotationWith(false);
