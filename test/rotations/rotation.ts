import { setTimeout as wait } from 'node:timers/promises';
import type { KeySet, TestCluster } from '../support/test-cluster.ts';

export type Order = 'Vault first' | 'gateway first' | 'both at once';

/** A row of the table: the rotations of one login. */
export interface Row {
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

/** Seconds from one rotation of a login to its next one. */
const apart = 6;
/** A login with two rotations has pauses up to so many seconds. */
const longestOfTwo = 30;

export function rowsFor(pauses: readonly number[]): readonly Row[] {
  const rows = pauses.flatMap((pause): Omit<Row, 'login'>[] => {
    const orders = pause === 0 ? (['both at once'] as const) : (['Vault first', 'gateway first'] as const);
    const switches = pause > longestOfTwo ? [1] : [1, 2];
    return orders.flatMap((order) => switches.map((count) => ({ order, pause, switches: count })));
  });
  return rows.map((row, index) => ({ ...row, login: `login-${index}` }));
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
