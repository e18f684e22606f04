import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { Folder } from '../support/folder.ts';
import { post } from '../support/forwarding.ts';
import { Load, type LoadRequest } from '../support/load.ts';
import { type FailingVault, VaultTrust } from '../support/outages.ts';
import { Random } from '../support/random.ts';
import { startRealVault } from '../support/real-vault-server.ts';
import { startFailingStub } from '../support/stub-vault/failing-stub.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { disturb, isOutage, type Place } from './disturb.ts';
import { deniedEndpointOf, endpointOf, frontOf } from './front.ts';
import { costOf, type Result, readsOf, type Sample } from './judge.ts';
import type { Options } from './options.ts';
import { type Row, rotate, rowsFor, startOf } from './rotation.ts';

/** Runs all rows at once: each has its login. */
export async function run(options: Options): Promise<Result> {
  const { instances, disturbance, traffic } = options;
  const all = rowsFor(options);
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
    endpoints: Object.fromEntries(
      logins.flatMap((login, index) => [endpointOf, deniedEndpointOf].map((of) => [of(index), login])),
    ),
    front: frontOf(rows, options),
    callers: Object.fromEntries(callersOf(options).map((name) => [name, tokenOf(name)])),
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
    await useOnce(place, rows);
    const load = new Load(
      requestsInTurn(place, rows, options),
      {
        mixed: 1_000 / options.rate,
        payments: 50,
        rare: 60_000,
      }[traffic],
    );
    await wait(3_000);
    const reads = countReads(vault);
    const over = new AbortController();
    const disturbing = disturb(disturbance, place, over.signal);
    const switches = await Promise.all(
      rows.map(async (row, index) => {
        await wait(startOf(row, new Random(options.seed, row.login)));
        return rotate(cluster, row, keys[index] ?? [], traffic);
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
      received: (login: string) => cluster.gateway.seen.count({ operation: 'transfer', login }),
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

const callersOf = ({ callers }: Options): readonly string[] =>
  Array.from({ length: callers }, (_, index) => `caller-${index + 1}`);

const tokenOf = (caller: string): string => `the token of ${caller}`.replaceAll(' ', '-');

/** Each process has read the keys of each row. */
async function useOnce({ active }: Place, rows: readonly Row[]): Promise<void> {
  for (const [index, { login }] of rows.entries()) {
    await Promise.all(
      active.map(({ url }) => {
        const {
          url: to,
          form,
          headers,
        } = requestOf('status', { url, login, caller: 'caller-1' }, endpointOf(index));
        return post(to, form, headers);
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
  const callers = callersOf(options);
  const isMixed = options.traffic === 'mixed';
  const each = isMixed ? inSuccession : 1;
  const requestsOf = (index: number, turn: number): LoadRequest[] => {
    const row = rows[index];
    const visit = Math.floor(turn / each);
    const process = active[(visit + index) % active.length];
    const caller = callers[Math.floor(visit / options.instances) % callers.length];
    if (row === undefined || process === undefined || caller === undefined) return [];
    const sender = { url: process.url, login: row.login, caller };
    const kind = isMixed ? (kinds[turn % kinds.length] ?? 'transfer') : 'transfer';
    const request = requestOf(kind, sender, endpointOf(index));
    return row.gateway === 'denied'
      ? [request, requestOf(kind, sender, deniedEndpointOf(index), 'denied')]
      : [request];
  };
  return () => {
    sent += 1;
    if (!isMixed) return rows.flatMap((_, index) => requestsOf(index, sent));
    return requestsOf(sent % rows.length, Math.floor(sent / rows.length));
  };
}

const kinds = ['balance', 'status', 'transfer'] as const;

/** @param mark precedes the name, and is in the log */
function requestOf(
  kind: (typeof kinds)[number],
  { url, login, caller }: { url: string; login: string; caller: string },
  endpoint: string,
  mark = '',
): LoadRequest {
  const order =
    kind === 'transfer' ? `${login}-${randomUUID()}&amount=1.00&currency=EUR` : `invoice-1&login=${login}`;
  const [form, path] =
    kind === 'balance'
      ? ['', `v2/get-balance/manager/${login}`]
      : [`client_orderid=${order}`, `v4/${kind}/${endpoint}`];
  const request = mark === '' ? {} : { 'X-Request-Id': mark };
  return {
    name: `${mark}${kind === 'transfer' ? 'transfer' : 'read'} ${login}`,
    url: `${url}/sandbox/gw/api/${path}`,
    form,
    headers: { Authorization: `Bearer ${tokenOf(caller)}`, ...request },
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
