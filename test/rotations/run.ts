import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { type FailingVault, startFailingStub } from '../support/failing-vaults.ts';
import { Folder } from '../support/folder.ts';
import { post } from '../support/forwarding.ts';
import { Load, type LoadRequest } from '../support/load.ts';
import { Random } from '../support/random.ts';
import { startRealVault } from '../support/real-vault-server.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { disturb, isOutage, type Place } from './disturb.ts';
import { costOf, type Result, readsOf, type Sample } from './judge.ts';
import { type Options, type Row, rotate, rowsFor, startOf } from './rotation.ts';

/** Runs all rows at once: each has its login. */
export async function run(options: Options): Promise<Result> {
  const { instances, disturbance, traffic } = options;
  const rows = rowsFor(options);
  const logins = rows.map(({ login }) => login);
  const folder = new Folder();
  const ca = new Ca(folder.path, 'vault-ca');
  const program = process.env['VAULT_BIN'];
  const vault = await (program === undefined ? startFailingStub(ca) : startRealVault(program, ca));
  const cluster = new TestCluster({
    logins,
    fresh: '60s',
    vaultTimeout: '2s',
    server: vault,
    endpoints: Object.fromEntries(logins.map((login, index) => [endpointOf(index), login])),
    callers: Object.fromEntries(callers.map((name) => [name, tokenOf(name)])),
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
    await useOnce(place, rows);
    const load = new Load(
      requestsInTurn(place, rows, options),
      traffic === 'mixed' ? 1_000 / options.rate : 50,
    );
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
    const codes = await cluster.exitCodes();
    const evidence = {
      hits: load.hits,
      transfers: cluster.transfers,
      received: (login: string) => cluster.gateway.seen.count({ operation: 'transfer', login }),
      outages: isOutage(disturbance) ? disturbed : [],
      pause: (1_000 * instances * inSuccession * rows.length) / options.rate,
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

const endpointOf = (index: number): string => String(2_000 + index);
const callers = ['caller-1', 'caller-2'] as const;
const tokenOf = (caller: string): string => `the-token-of-${caller}`;

/** Each process has read the keys of each row. */
async function useOnce({ active }: Place, rows: readonly Row[]): Promise<void> {
  for (const [index, { login }] of rows.entries()) {
    await Promise.all(
      active.map(({ url }) => {
        const request = requestOf('status', { url, login, caller: callers[0] }, endpointOf(index));
        return post(request.url, request.form, request.headers);
      }),
    );
  }
}

/**
 * One login after the other, or all at once; each sends a balance, a status and a transfer in turn, or only transfers, then
 * the same elsewhere, then the same by another caller.
 */
function requestsInTurn({ active }: Place, rows: readonly Row[], options: Options): () => LoadRequest[] {
  let sent = 0;
  const isMixed = options.traffic === 'mixed';
  const each = isMixed ? inSuccession : 1;
  const requestsOf = (index: number, turn: number): LoadRequest[] => {
    const row = rows[index];
    const visit = Math.floor(turn / each);
    const process = active[(visit + index) % active.length];
    const caller = callers[Math.floor(visit / options.instances) % callers.length];
    if (row === undefined || process === undefined || caller === undefined) return [];
    const kind = isMixed ? (kinds[turn % kinds.length] ?? 'transfer') : 'transfer';
    return [requestOf(kind, { url: process.url, login: row.login, caller }, endpointOf(index))];
  };
  return () => {
    sent += 1;
    if (!isMixed) return rows.flatMap((_, index) => requestsOf(index, sent));
    return requestsOf(sent % rows.length, Math.floor(sent / rows.length));
  };
}

const kinds = ['balance', 'status', 'transfer'] as const;

function requestOf(
  kind: (typeof kinds)[number],
  { url, login, caller }: { url: string; login: string; caller: string },
  endpoint: string,
): LoadRequest {
  const order =
    kind === 'transfer' ? `${login}-${randomUUID()}&amount=1.00&currency=EUR` : `invoice-1&login=${login}`;
  const [form, path] =
    kind === 'balance'
      ? ['', `v2/get-balance/manager/${login}`]
      : [`client_orderid=${order}`, `v4/${kind}/${endpoint}`];
  return {
    name: `${kind === 'transfer' ? 'transfer' : 'read'} ${login}`,
    url: `${url}/sandbox/gw/api/${path}`,
    form,
    headers: { Authorization: `Bearer ${tokenOf(caller)}` },
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
