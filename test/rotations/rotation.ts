import { setTimeout as wait } from 'node:timers/promises';
import type { KeySet, TestCluster } from '../support/test-cluster.ts';

type Order = 'both at once' | 'Vault first' | 'gateway first' | 'overlap';

export interface Options {
  /** Seconds between the two events of a rotation. */
  readonly pauses: readonly number[];
  readonly orders: readonly Order[];
  /** Requests of a login: queries and payments, or payments alone, 20 a second. */
  readonly traffic: 'mixed' | 'payments';
}

/** A row of the table: the rotations of one login. */
export interface Row {
  /** From 1. */
  readonly number: number;
  readonly login: string;
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

/** Seconds after a rotation of a login. */
const apart = 6;

export function rowsFor({ pauses, orders }: Options): readonly Row[] {
  const rows = pauses.flatMap((pause) =>
    orders
      .filter((order) => (order === 'both at once') === (pause === 0))
      .flatMap((order) => [1, 2].map((switches) => ({ order, pause, switches }))),
  );
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
