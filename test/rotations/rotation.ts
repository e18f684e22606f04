import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../support/random.ts';
import type { KeySet, TestCluster } from '../support/test-cluster.ts';
import { outage } from './disturb.ts';
import { type Disturbance, every } from './options.ts';

export type Order = 'Vault first' | 'gateway first' | 'both at once';
/** Where the first rotation of a row is disturbed; later on this is left to the pauses. */
type Moment = 'before' | 'between' | 'after' | '-';

/** A row of the table: the rotations of one login. */
export interface Row {
  /** From 1. */
  readonly number: number;
  readonly login: string;
  readonly moment: Moment;
  readonly order: Order;
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

/** Seconds from one rotation of a login to its next one. */
const apart = 6;
/** A login with two rotations has pauses up to so many seconds. */
const longestOfTwo = 30;

export function rowsFor(pauses: readonly number[], disturbance: Disturbance): readonly Row[] {
  const rows = pauses.flatMap((pause): Omit<Row, 'number' | 'login'>[] => {
    const orders = pause === 0 ? (['both at once'] as const) : (['Vault first', 'gateway first'] as const);
    const counts = pause > longestOfTwo ? [1] : [1, 2];
    const moments = momentsOf(pause, disturbance);
    return orders.flatMap((order) =>
      counts.flatMap((switches) => moments.map((moment) => ({ order, pause, switches, moment }))),
    );
  });
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
  for (const keys of newKeys) {
    const beganAt = performance.now();
    const accept = async (): Promise<number> => {
      cluster.acceptOnly(login, keys);
      return performance.now();
    };
    const store = (): Promise<number> => storeInVault(cluster, login, keys);
    if (order === 'Vault first') {
      const vaultAt = await store();
      await wait(pause * 1_000);
      switches.push({ beganAt, vaultAt, gatewayAt: await accept() });
    } else {
      const [gatewayAt] = await Promise.all([accept(), wait(pause * 1_000)]);
      switches.push({ beganAt, gatewayAt, vaultAt: await store() });
    }
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
