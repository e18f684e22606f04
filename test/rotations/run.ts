import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { Folder } from '../support/folder.ts';
import { Load, type LoadRequest } from '../support/load.ts';
import { VaultTrust } from '../support/outages.ts';
import { startRealVault } from '../support/real-vault-server.ts';
import { startFailingStub } from '../support/stub-vault/failing-stub.ts';
import { balanceOf, statusOf, TestCluster } from '../support/test-cluster.ts';
import { disturb, type Place, resetEvery } from './disturb.ts';
import { type Cost, costOf } from './judge.ts';
import type { Options } from './options.ts';
import { rotate, rowsFor } from './rotation.ts';

/** Milliseconds between the requests of a login: two reads, then a payment. */
const every = 350;

export interface Result {
  readonly costs: readonly Cost[];
  readonly requestsPerSecond: number;
  /** Of one instance: the most in a second, and the average. */
  readonly mostReads: number;
  readonly averageReads: number;
}

/** Runs all rows at once: each has its login. */
export async function run({
  instances,
  pauses,
  disturbance,
  canary,
  vault: program,
}: Options): Promise<Result> {
  const rows = rowsFor(pauses);
  const folder = new Folder();
  const trust = new VaultTrust(folder);
  const vault = await (program === undefined ? startFailingStub(trust) : startRealVault(program, trust));
  const logins = rows.map(({ login }) => login);
  const cluster = new TestCluster({
    logins,
    fresh: '60s',
    vaultTimeout: '2s',
    canary,
    server: vault,
    endpointEach: true,
  });
  try {
    await cluster.open();
    const auth = await cluster.appRole();
    const active = [...(await cluster.startProcesses(instances, auth))];
    const place: Place = { cluster, vault, auth, active };
    // Made before the load, which would wait for it.
    const keys = rows.map(({ switches }) => Array.from({ length: switches }, () => cluster.newKeys()));
    const load = new Load(waves(place, logins), every);
    const reads = countReads(async () => (await vault.reads()) ?? 0);
    await wait(3_000);
    const over = new AbortController();
    const disturbing = disturb(disturbance, place, over.signal);
    const switches = await Promise.all(rows.map((row, index) => rotate(cluster, row, keys[index] ?? [])));
    over.abort();
    const outages = await disturbing;
    await load.end();
    const perSecond = reads.end();
    const logs = cluster.processes.map((one) => one.logLines('request completed'));
    const evidence = {
      hits: load.hits,
      logs,
      transfers: cluster.transfers,
      outages,
      instances,
      resetEvery: resetEvery(disturbance),
    };
    return {
      costs: rows.map((row, index) => costOf(row, switches[index] ?? [], evidence)),
      requestsPerSecond: load.rate,
      mostReads: Math.max(...perSecond) / instances,
      averageReads: perSecond.reduce((sum, one) => sum + one, 0) / perSecond.length / instances,
    };
  } finally {
    await cluster.close();
    await vault.close();
    folder.remove();
  }
}

/** Of each login in turn a balance, a status and a transfer, each time through another process. */
function waves({ active }: Place, logins: readonly string[]): () => LoadRequest[] {
  let count = 0;
  return () => {
    count += 1;
    return logins.flatMap((login, index): LoadRequest[] => {
      const process = active[(Math.floor(count / 3) + index) % active.length];
      if (process === undefined) return [];
      if (count % 3 === 2) return [transferBy(process.url, login, index)];
      return [{ ...(count % 3 === 0 ? balanceOf : statusOf)(process, login), name: `read ${login}` }];
    });
  };
}

function transferBy(url: string, login: string, index: number): LoadRequest {
  const form = `client_orderid=${login}-${randomUUID()}&amount=1.00&currency=EUR`;
  return {
    name: `transfer ${login}`,
    url: `${url}/sandbox/gw/api/v4/transfer/${TestCluster.endpointOf(index)}`,
    form,
  };
}

/** Counts reads per second; a second in which they cannot be counted, as during an outage, is left out. */
function countReads(count: () => Promise<number>): { end: () => readonly number[] } {
  const perSecond: number[] = [];
  let before = Number.NaN;
  const sample = async (): Promise<void> => {
    const reads = await count().catch(() => Number.NaN);
    if (reads >= before) perSecond.push(reads - before);
    before = reads;
  };
  const timer = setInterval(() => void sample(), 1_000);
  return {
    end() {
      clearInterval(timer);
      return perSecond;
    },
  };
}
