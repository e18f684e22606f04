import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { post } from '../support/forwarding.ts';
import { Load, type LoadRequest } from '../support/load.ts';
import type { CountersignProcess } from '../support/process.ts';
import { balanceOf, newKeys, statusOf, TestCluster } from '../support/test-cluster.ts';
import { costOf, type Result } from './judge.ts';
import { type Options, type Row, rotate, rowsFor } from './rotation.ts';

/** Requests of a login that one process gets, before the next one does. */
const inSuccession = 3;

/** Runs all rows at once: each has its login. */
export async function run(options: Options): Promise<Result> {
  const { instances, traffic, rate } = options;
  const rows = rowsFor(options);
  const logins = rows.map(({ login }) => login);
  const endpoints = Object.fromEntries(rows.map((row) => [endpointOf(row), row.login]));
  const cluster = new TestCluster(endpoints);
  try {
    // Made before the processes start, which would wait for the stub meanwhile.
    const keys = rows.map(({ switches }) => Array.from({ length: switches }, newKeys));
    await cluster.open(instances);
    await useOnce(cluster.processes, logins);
    const every = traffic === 'mixed' ? 1_000 / rate : 50;
    const load = new Load(requestsInTurn(cluster.processes, rows, options), every);
    await wait(3_000);
    const reads = countReads(cluster);
    const switches = await Promise.all(rows.map((row, at) => rotate(cluster, row, keys[at] ?? [])));
    await load.end();
    const most = reads.end() / instances;
    await cluster.endProcesses();
    const evidence = {
      hits: load.hits,
      transfers: cluster.transfers,
      received: (login: string) => cluster.seen.count({ operation: 'transfer', login }),
      pause: (1_000 * instances * inSuccession * rows.length) / rate,
    };
    const costs = rows.map((row, index) => costOf(row, switches[index] ?? [], evidence));
    return { costs, requestsPerSecond: load.rate, mostReads: most };
  } finally {
    await cluster.close();
  }
}

const endpointOf = ({ number }: Pick<Row, 'number'>): string => String(2_000 + number);

/** Each process has read the keys of each row. */
async function useOnce(processes: readonly CountersignProcess[], logins: readonly string[]): Promise<void> {
  for (const login of logins) await Promise.all(processes.map((one) => post(balanceOf(one, login).url, '')));
}

/** One login after the other, or all at once; each sends a balance, a status and a transfer in turn, or only transfers. */
function requestsInTurn(
  processes: readonly CountersignProcess[],
  rows: readonly Row[],
  { traffic }: Options,
): () => LoadRequest[] {
  let sent = 0;
  const isMixed = traffic === 'mixed';
  const requestsOf = (row: Row, turn: number): LoadRequest[] => {
    const process =
      processes[(Math.floor(turn / (isMixed ? inSuccession : 1)) + row.number) % processes.length];
    if (process === undefined) return [];
    const { login } = row;
    if (isMixed && turn % 3 < 2)
      return [{ ...(turn % 3 === 0 ? balanceOf : statusOf)(process, login), name: `read ${login}` }];
    const form = `client_orderid=${login}-${randomUUID()}&amount=1.00&currency=EUR`;
    const url = `${process.url}/sandbox/gw/api/v4/transfer/${endpointOf(row)}`;
    return [{ name: `transfer ${login}`, url, form }];
  };
  return () => {
    sent += 1;
    if (!isMixed) return rows.flatMap((row) => requestsOf(row, sent));
    return rows
      .slice(sent % rows.length)
      .slice(0, 1)
      .flatMap((row) => requestsOf(row, Math.floor(sent / rows.length)));
  };
}

/** Counts reads of Vault. The end gives those in the second with the most. */
function countReads(cluster: TestCluster): { end: () => number } {
  let [before, most] = [cluster.vaultReads, 0];
  const timer = setInterval(() => {
    most = Math.max(most, cluster.vaultReads - before);
    before = cluster.vaultReads;
  }, 1_000);
  return {
    end() {
      clearInterval(timer);
      return most;
    },
  };
}
