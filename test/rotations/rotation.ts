import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../support/random.ts';
import type { KeySet, TestCluster } from '../support/test-cluster.ts';
import { outage } from './disturb.ts';
import { type Disturbance, every, type Gateway, type Options, type Order } from './options.ts';

/** Where the first rotation of a row is disturbed; later on this is left to the pauses. */
type Moment = 'before' | 'between' | 'after' | '-';

/** A row of the table: the rotations of one login. */
export interface Row {
  /** From 1. */
  readonly number: number;
  readonly login: string;
  readonly moment: Moment;
  readonly order: Order;
  readonly gateway: Gateway;
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

/** Seconds after a rotation of a login; of a few payments, more. */
const [apart, apartOfRare] = [6, 400];
/** A login with two rotations has pauses up to so many seconds. */
const longestOfTwo = 30;

export function rowsFor({
  pauses,
  orders,
  gateways,
  disturbance,
}: Pick<Options, 'pauses' | 'orders' | 'gateways' | 'disturbance'>): readonly Row[] {
  const rows = pauses.flatMap((pause) => {
    const possible = orders.filter((order) => (order === 'both at once') === (pause === 0));
    return possible.flatMap((order) =>
      gateways.flatMap((gateway) =>
        (pause > longestOfTwo || gateway !== 'plain' ? [1] : [1, 2]).flatMap((switches) =>
          momentsOf(pause, disturbance).map((moment) => ({ order, gateway, pause, switches, moment })),
        ),
      ),
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
  traffic: Options['traffic'],
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
    await wait((traffic === 'rare' ? apartOfRare : apart) * 1_000);
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
