import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { table } from '../../src/cli/shared/table.ts';
import { Folder } from '../support/folder.ts';
import { post } from '../support/forwarding.ts';
import { type Hit, Load } from '../support/load.ts';
import { type FailingVault, VaultTrust } from '../support/outages.ts';
import { startRealVault } from '../support/real-vault-server.ts';
import { describeWith } from '../support/requires.ts';
import { startFailingStub } from '../support/stub-vault/failing-stub.ts';
import type { StubVault } from '../support/stub-vault/server.ts';
import { balanceOf, statusOf, TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

// Seconds count here, and another program may take the processor for one.
jest.retryTimes(2, { logErrorsBeforeRetry: true, retryImmediately: true });

const program = process.env['VAULT_BIN'];
interface Server {
  readonly server: string;
  readonly start: (trust: VaultTrust) => Promise<StartedVault>;
}
type StartedVault = FailingVault & { readonly stub?: StubVault };
const stub: Server = { server: 'the stub', start: startFailingStub };
const real: Server = { server: 'a real server', start: (trust) => startRealVault(program ?? '', trust) };
if (program === undefined)
  process.stderr.write('skipped: Transit outages of a real server (set VAULT_BIN)\n');

const processes = 2;
/** Milliseconds between waves of one request of each kind per process: a hundred per second in all. */
const every = 60;
/** Milliseconds of an outage. */
const length = 3500;
/** Seconds: TTL of a key, and timeout of a request to Vault. */
const [fresh, deadline] = [1, 1];
/** Milliseconds after the recovery within which a signature must succeed. */
const promised = 2000;

interface Place {
  readonly vault: StartedVault;
  readonly cluster: TestCluster;
}

interface Row {
  readonly name: string;
  /** Of requests that Vault does not sign. */
  readonly result: string;
  /** Also, while the gateway does not have the new key yet. */
  readonly between?: string;
  /** In the finding. */
  readonly cause: RegExp;
  readonly begin: (place: Place) => Promise<unknown>;
  readonly end: (place: Place) => Promise<unknown>;
}

const unavailable = '503 signing-unavailable';
const rows: readonly Row[] = [
  {
    name: 'killed',
    result: unavailable,
    cause: /Vault cannot be reached/,
    begin: ({ vault }) => vault.kill(),
    end: ({ vault }) => vault.restart(),
  },
  {
    name: 'hung',
    result: unavailable,
    cause: /did not respond in time/,
    begin: ({ vault }) => vault.hang(),
    end: ({ vault }) => vault.resume(),
  },
  {
    name: 'sealed',
    result: unavailable,
    cause: /Vault is sealed/,
    begin: ({ vault }) => vault.seal(),
    end: ({ vault }) => vault.unseal(),
  },
  {
    name: 'rate-limited',
    result: unavailable,
    cause: /rate-limited by Vault/,
    begin: ({ vault }) => vault.limitRate(false, 'transit'),
    end: ({ vault }) => vault.liftRateLimit(),
  },
  {
    name: 'denied',
    result: unavailable,
    cause: /Vault denied permission/,
    begin: ({ cluster }) => cluster.writePolicyWithoutTransit(),
    end: ({ cluster }) => cluster.writePolicy(),
  },
  {
    name: 'key deleted, then made anew',
    result: '502 key-unusable',
    between: '403 answered',
    cause: /cannot be used/,
    async begin({ cluster: { admin } }) {
      await admin.send('POST', 'transit/keys/transit/config', { deletion_allowed: true });
      await admin.send('DELETE', 'transit/keys/transit');
    },
    async end({ cluster }) {
      const publicKey = await cluster.admin.newTransitKey('transit');
      cluster.acceptOnly('transit', { ...cluster.first, publicKey });
    },
  },
];

/** What is measured in an outage. Times in milliseconds. */
interface Measured {
  readonly row: string;
  readonly failed: number;
  /** The slowest error. */
  readonly slowest: number;
  /** From the recovery to the first good response after which none failed. */
  readonly recovered: number;
  readonly signRequests: number | undefined;
}

const countsIn = (hits: readonly Hit[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { result } of hits) counts[result] = (counts[result] ?? 0) + 1;
  return counts;
};

describeWith('openssl')('while Vault does not sign (needs the program openssl),', () => {
  describe.each(program === undefined ? [stub] : [stub, real])('$server', ({ start }) => {
    const folder = new Folder();
    const measured: Measured[] = [];
    const loads: Load[] = [];
    let place: Place;

    beforeAll(async () => {
      const trust = new VaultTrust(folder);
      const vault = await start(trust);
      const times = { fresh: `${fresh}s`, vaultTimeout: `${deadline}s` };
      const cluster = new TestCluster({ logins: ['secret', 'transit'], ...times, server: vault });
      place = { cluster, vault };
      await cluster.open();
      const inTransit = await cluster.newTransitKeys('transit');
      const keys = { ...inTransit, controlKey: cluster.first.controlKey };
      // Without an older RSA key, which would sign in its place.
      await cluster.admin.request('DELETE', 'secret/metadata/gateway/sandbox/transit');
      await cluster.putInVault('transit', keys);
      cluster.acceptOnly('transit', keys);
      await cluster.startProcesses(processes, await cluster.appRole());
      for (const one of cluster.processes) {
        for (const { url, form } of requestsOf(one))
          await until(async () => (await post(url, form)).status === 200, 'the keys are cached', 30);
      }
    }, 60_000);

    afterAll(async () => {
      const head = 'outage|failed, not sent|slowest error, ms|good again after, ms|requests to sign'.split(
        '|',
      );
      const lines = measured.map(({ row, failed, slowest, recovered, signRequests = '-' }) =>
        [row, failed, Math.round(slowest), Math.round(recovered), signRequests].map(String),
      );
      console.info([...table(head, lines)].join('\n'));
      await place.cluster.close();
      await place.vault.close();
      folder.remove();
    }, 30_000);

    const requestsOf = (one: TestCluster['processes'][number]) => [
      statusOf(one, 'transit'),
      statusOf(one, 'secret'),
      balanceOf(one, 'transit'),
    ];

    // Also of a test that failed.
    afterEach(async () => {
      await Promise.all(loads.map((load) => load.end()));
    });

    it.each(rows)(
      '$name: only its requests fail, at once, and nothing is sent',
      async (row) => {
        const { cluster } = place;
        const before = cluster.gateway.seen.count();
        const load = new Load(() => cluster.processes.flatMap(requestsOf), every);
        loads.push(load);
        await wait(500);
        await row.begin(place);
        const beganAt = performance.now();
        const requestedBefore = signRequests();
        await wait(length);
        const findings = await Promise.all(cluster.processes.map((one) => findingsOf(one)));
        const requested = signRequests();
        const endsAt = performance.now();
        await row.end(place);
        const endedAt = performance.now();
        await wait(promised + 1000);
        await load.end();

        const transit = load.hits.filter(({ name }) => name === 'status transit');
        const failed = transit.filter(
          ({ result, sentAt }) => result !== '200 answered' && !(result === row.between && sentAt > endsAt),
        );
        const lastFailure = Math.max(...failed.map(({ sentAt }) => sentAt));
        const next = transit
          .filter(({ sentAt }) => sentAt > lastFailure)
          .map(({ sentAt, took }) => sentAt + took);
        measured.push({
          row: row.name,
          failed: failed.length,
          slowest: Math.max(...failed.map(({ took }) => took)),
          recovered: Math.max(0, Math.min(...next) - endedAt),
          signRequests: requested === undefined ? undefined : requested - (requestedBefore ?? 0),
        });

        const others = load.hits.filter(({ name }) => name !== 'status transit');
        expect(countsIn(others)).toEqual({ '200 answered': others.length });
        expect(Object.keys(countsIn(failed))).toEqual([row.result]);
        const during = transit.filter(
          ({ sentAt }) => sentAt > beganAt + 1100 && sentAt < endedAt - deadline * 1000 - 100,
        );
        expect(during.length).toBeGreaterThan(20);
        expect(countsIn(during)).toEqual({ [row.result]: during.length });
        // Nothing was sent of what failed, and everything else once.
        expect(cluster.gateway.seen.count() - before).toBe(load.hits.length - failed.length);
        expect(Math.max(...failed.map(({ took }) => took))).toBeLessThan(deadline * 1000 + 800);
        expect(lastFailure).toBeLessThan(endedAt + promised);
        for (const texts of findings) expect(texts).toContainEqual(expect.stringMatching(row.cause));
      },
      60_000,
    );

    /** Requests for a signature that Vault received, if that is known. */
    function signRequests(): number | undefined {
      return place.vault.stub?.count(/^POST transit\/sign/);
    }

    async function findingsOf(one: TestCluster['processes'][number]): Promise<string[]> {
      const { findings } = await one.instanceStatus();
      return findings.map(({ summary }) => summary);
    }

    it('a storm of 403s of the gateway does not become one at Vault', async () => {
      const { cluster } = place;
      // Two keys, of which the gateway accepts neither: each 403 is a reason to try the other one.
      await cluster.putInVault('transit', await cluster.newTransitKeys('transit-2'));
      cluster.acceptOnly('transit');
      await wait(fresh * 1000);
      const [before, sentBefore] = [signRequests() ?? 0, cluster.gateway.seen.count()];
      const load = new Load(() => cluster.processes.map((one) => statusOf(one, 'transit')), 20);
      loads.push(load);
      await wait(length);
      await load.end();
      expect(countsIn(load.hits)).toEqual({ '403 answered': load.hits.length });
      expect(cluster.gateway.seen.count() - sentBefore).toBeLessThan(1.2 * load.hits.length);
      if (signRequests() === undefined) return;
      const made = (signRequests() ?? 0) - before;
      measured.push({
        row: `403 storm of ${load.hits.length}`,
        failed: 0,
        slowest: 0,
        recovered: 0,
        signRequests: made,
      });
      expect(made).toBeLessThan(1.2 * load.hits.length);
    }, 30_000);

    it('leaks no secret', async () => {
      expect(await place.cluster.leaks(...loads.map((load) => load.seen()))).toEqual([]);
    });
  });
});
