import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { Folder } from '../support/folder.ts';
import { Load, type LoadRequest } from '../support/load.ts';
import { type FailingVault, VaultTrust } from '../support/outages.ts';
import { Random } from '../support/random.ts';
import { startRealVault } from '../support/real-vault-server.ts';
import { startFailingStub } from '../support/stub-vault/failing-stub.ts';
import { balanceOf, statusOf, TestCluster } from '../support/test-cluster.ts';
import { disturb, isOutage, type Place } from './disturb.ts';
import { costOf, type Result, readsOf, type Sample } from './judge.ts';
import type { Options } from './options.ts';
import { rotate, rowsFor, startOf } from './rotation.ts';

/** Runs all rows at once: each has its login. */
export async function run(options: Options): Promise<Result> {
  const { instances, disturbance } = options;
  const all = rowsFor(options.pauses, disturbance);
  const rows = all.filter(({ number }) => options.row === undefined || number === options.row);
  if (rows.length === 0) throw new RangeError(`there are only ${all.length} rows`);
  const logins = rows.map(({ login }) => login);
  const folder = new Folder();
  const trust = new VaultTrust(folder);
  const vault = await (options.vault === undefined
    ? startFailingStub(trust)
    : startRealVault(options.vault, trust));
  const cluster = new TestCluster({
    logins,
    fresh: '60s',
    vaultTimeout: '2s',
    server: vault,
    endpointEach: true,
    program: options.program,
  });
  try {
    await cluster.open();
    const auth = await cluster.appRole();
    // Made before the processes start, which would wait for the stub meanwhile.
    const keys = rows.map(({ switches }) => Array.from({ length: switches }, () => cluster.newKeys()));
    const place: Place = {
      cluster,
      vault,
      auth,
      active: [...(await cluster.startProcesses(instances, auth))],
    };
    const load = new Load(requestsInTurn(place, logins), 1_000 / options.rate);
    await wait(3_000);
    const reads = countReads(vault);
    const over = new AbortController();
    const disturbing = disturb(disturbance, place, over.signal);
    const switches = await Promise.all(
      rows.map(async (row, index) => {
        await wait(startOf(row, new Random(options.seed, row.login)));
        return rotate(cluster, row, keys[index] ?? []);
      }),
    );
    over.abort();
    const disturbed = await disturbing;
    await load.end();
    const samples = reads.end();
    const processes = [...cluster.processes];
    const codes = await cluster.exitCodes();
    const evidence = {
      hits: load.hits,
      logs: processes.map((one) => one.logLines('request completed')),
      transfers: cluster.transfers,
      outages: isOutage(disturbance) ? disturbed : [],
      instances,
      pause: (1_000 * instances * inSuccession * rows.length) / options.rate,
      resets: disturbed.map(({ to }) => to),
    };
    return {
      costs: rows.map((row, index) => costOf(row, switches[index] ?? [], evidence)),
      requestsPerSecond: load.rate,
      reads: readsOf(samples, disturbed, instances),
      failedProcesses: codes.filter((code) => code !== 0).length,
    };
  } finally {
    await cluster.close();
    await vault.close();
    folder.remove();
  }
}

/** Requests of a login that one process gets, before the next one does. */
const inSuccession = 3;

/** One login after the other; each sends a balance, a status and a transfer in turn, then the same elsewhere. */
function requestsInTurn({ active }: Place, logins: readonly string[]): () => LoadRequest[] {
  let sent = 0;
  return () => {
    const [index, turn] = [sent % logins.length, Math.floor(sent / logins.length)];
    sent += 1;
    const login = logins[index];
    const process = active[(Math.floor(turn / inSuccession) + index) % active.length];
    if (login === undefined || process === undefined) return [];
    if (turn % 3 === 2) return [transferBy(process.url, login, index)];
    return [{ ...(turn % 3 === 0 ? balanceOf : statusOf)(process, login), name: `read ${login}` }];
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

/** Counts reads per second, from one sample to the next; there are none while Vault does not respond. */
function countReads(vault: FailingVault): { end: () => readonly Sample[] } {
  const samples: Sample[] = [];
  let before = { at: Number.NaN, count: Number.NaN };
  const sample = async (): Promise<void> => {
    const count = await vault.reads().catch(() => undefined);
    if (count === undefined) return;
    const at = performance.now();
    // A server that was started again counts from 0.
    if (count >= before.count) {
      samples.push({ at, perSecond: ((count - before.count) * 1_000) / (at - before.at) });
    }
    before = { at, count };
  };
  const timer = setInterval(() => void sample(), 1_000);
  return {
    end() {
      clearInterval(timer);
      return samples;
    },
  };
}
