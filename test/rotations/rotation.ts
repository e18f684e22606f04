import { setTimeout as wait } from 'node:timers/promises';
import type { KeySet, TestCluster } from '../support/test-cluster.ts';

export const orders = ['both at once', 'Vault first', 'gateway first', 'overlap'] as const;
/** Requests of a login: queries and payments, or payments alone, 20 a second. */
export const traffics = ['mixed', 'payments'] as const;

export interface Options {
  /** Processes. */
  readonly instances: number;
  /** Seconds between the two events of a rotation. */
  readonly pauses: readonly number[];
  readonly orders: readonly (typeof orders)[number][];
  readonly traffic: (typeof traffics)[number];
  /** Requests per second of all rows together. */
  readonly rate: number;
}

/** A row of the table: the rotations of one login. */
export interface Row {
  /** From 1. */
  readonly number: number;
  readonly login: string;
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

export function rowsFor({ pauses, orders }: Options): readonly Row[] {
  const rows = pauses.flatMap((pause) =>
    orders
      .filter((order) => (order === 'both at once') === (pause === 0))
      .flatMap((order) =>
        (pause > longestOfTwo ? [1] : [1, 2]).map((switches) => ({ order, pause, switches })),
      ),
  );
  if (rows.length === 0) throw new RangeError('there is no rotation with these pauses and orders');
  return rows.map((row, index) => ({ ...row, number: index + 1, login: `login-${index + 1}` }));
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
    const at = { gatewayAt: beganAt, vaultAt: beganAt };
    const inVault = async (): Promise<void> => {
      cluster.putInVault(login, keys);
      at.vaultAt = performance.now();
    };
    const inGateway = async (): Promise<void> => {
      cluster.acceptOnly(login, keys);
      at.gatewayAt = performance.now();
    };
    if (order === 'overlap') cluster.acceptOnly(login, old, keys);
    const isGatewayFirst = order === 'gateway first' || order === 'both at once';
    const [first, second] = isGatewayFirst ? [inGateway, inVault] : [inVault, inGateway];
    await first();
    await wait(pause * 1_000);
    await second();
    switches.push({ beganAt, ...at });
    old = keys;
    await wait(apart * 1_000);
  }
  return switches;
}
