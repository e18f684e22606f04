import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../support/random.ts';
import type { KeySet, TestCluster } from '../support/test-cluster.ts';
import { every, outage } from './disturb.ts';

export const orders = ['both at once', 'Vault first', 'gateway first', 'overlap'] as const;

/** What happens to the processes or to Vault, again and again while keys rotate. */
export const disturbances = ['none', 'sighup', 'restart', 'killed', 'hung', 'sealed'] as const;
export type Disturbance = (typeof disturbances)[number];

/** Requests of a login: queries and payments, or payments alone, 20 a second. */
export const traffics = ['mixed', 'payments'] as const;

export interface Options {
  /** Processes. */
  readonly instances: number;
  /** Seconds between the two events of a rotation. */
  readonly pauses: readonly number[];
  readonly orders: readonly (typeof orders)[number][];
  readonly traffic: (typeof traffics)[number];
  readonly disturbance: Disturbance;
  /** The moments within these rules. */
  readonly seed: number;
  /** Requests per second of all rows together. */
  readonly rate: number;
}

/** Where the first rotation of a row is disturbed; later on this is left to the pauses. */
type Moment = 'before' | 'between' | 'after' | '-';

/** A row of the table: the rotations of one login. */
export interface Row {
  /** From 1. */
  readonly number: number;
  readonly login: string;
  readonly moment: Moment;
  readonly order: (typeof orders)[number];
  /** Seconds. */
  readonly pause: number;
  readonly switches: number;
}

/** One rotation. Times as of `performance.now()`. */
export interface Switch {
  readonly beganAt: number;
  /** When the gateway accepts the new keys only. */
  readonly gatewayAt: number;
  /** When Vault had them. */
  readonly vaultAt: number;
}

/** Seconds after a rotation of a login. */
const apart = 6;
/** A login with two rotations has pauses up to so many seconds. */
const longestOfTwo = 30;

export function rowsFor({ pauses, orders, disturbance }: Options): readonly Row[] {
  const rows = pauses.flatMap((pause) => {
    const possible = orders.filter((order) => (order === 'both at once') === (pause === 0));
    return possible.flatMap((order) =>
      (pause > longestOfTwo ? [1] : [1, 2]).flatMap((switches) =>
        momentsOf(pause, disturbance).map((moment) => ({ order, pause, switches, moment })),
      ),
    );
  });
  if (rows.length === 0) throw new RangeError('there is no rotation with these pauses and orders');
  return rows.map((row, index) => ({ ...row, number: index + 1, login: `login-${index + 1}` }));
}

function momentsOf(pause: number, disturbance: Disturbance): readonly Moment[] {
  if (disturbance === 'none') return ['-'];
  return pause === 0 ? ['before', 'after'] : ['before', 'between', 'after'];
}

/** Milliseconds until the first rotation of a row begins, from when the disturbances are counted. */
export function startOf({ moment, pause }: Row, random: Random): number {
  if (moment === '-') return 0;
  const jitter = 200 + 800 * random.next();
  const period = every * 1_000;
  if (moment === 'before') return period + outage * 1_000 + jitter;
  if (moment === 'between') return period - jitter;
  // The last event comes right before a disturbance, which is not the first one if the pause is longer.
  return (Math.floor(pause / every) + 1) * period - pause * 1_000 - jitter;
}

/** Resolves with each rotation of the row when all are over. */
export async function rotate(
  cluster: TestCluster,
  { login, order, pause }: Row,
  newKeys: readonly KeySet[],
): Promise<readonly Switch[]> {
  const switches: Switch[] = [];
  let old = cluster.first;
  for (const keys of newKeys) {
    const beganAt = performance.now();
    const accept = async (): Promise<number> => {
      cluster.acceptOnly(login, keys);
      return performance.now();
    };
    const store = (): Promise<number> => storeInVault(cluster, login, keys);
    if (order === 'Vault first' || order === 'overlap') {
      if (order === 'overlap') cluster.acceptOnly(login, old, keys);
      const vaultAt = await store();
      await wait(pause * 1_000);
      switches.push({ beganAt, vaultAt, gatewayAt: await accept() });
    } else {
      const [gatewayAt] = await Promise.all([accept(), wait(pause * 1_000)]);
      switches.push({ beganAt, gatewayAt, vaultAt: await store() });
    }
    old = keys;
    await wait(apart * 1_000);
  }
  return switches;
}

/** A person stores keys again until Vault has them. */
async function storeInVault(cluster: TestCluster, login: string, keys: KeySet): Promise<number> {
  for (;;) {
    const stored = cluster.putInVault(login, keys).then(() => 'stored', String);
    if ((await Promise.race([stored, wait(2_000, 'no response')])) === 'stored') return performance.now();
    await wait(250);
  }
}
