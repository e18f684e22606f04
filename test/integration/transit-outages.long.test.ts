import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Folder } from '../support/folder.ts';
import { post } from '../support/forwarding.ts';
import { type Hit, Load } from '../support/load.ts';
import { VaultTrust } from '../support/outages.ts';
import { failingVaults, type StartedVault } from '../support/real-vault-server.ts';
import { describeWith } from '../support/requires.ts';
import { balanceOf, statusOf, TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

// Seconds count here, and another program may take the processor for one.
jest.retryTimes(2, { logErrorsBeforeRetry: true, retryImmediately: true });

const processes = 2;
/** Milliseconds between waves of one request of each kind per process: a hundred per second in all. */
const every = 60;
/** Milliseconds of an outage. */
const length = 3000;
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
    begin: ({ vault }) => vault.limitRate('transit'),
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

const resultsOf = (hits: readonly Hit[]): readonly string[] => [...new Set(hits.map(({ result }) => result))];

describeWith('openssl')('while Vault does not sign (needs the program openssl),', () => {
  describe.each(failingVaults)('$server', ({ start }) => {
    const folder = new Folder();
    const loads: Load[] = [];
    let place: Place;

    beforeAll(async () => {
      const vault = await start(new VaultTrust(folder));
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
      for (const { url, form } of cluster.processes.flatMap(requestsOf))
        await until(async () => (await post(url, form)).status === 200, 'the keys are cached', 30);
    }, 60_000);

    afterAll(async () => {
      await place.cluster.close();
      await place.vault.close();
      folder.remove();
    }, 30_000);

    const requestsOf = (one: TestCluster['processes'][number]) => [
      statusOf(one, 'transit'),
      statusOf(one, 'secret'),
      balanceOf(one, 'transit'),
    ];

    function startLoad(...load: ConstructorParameters<typeof Load>): Load {
      const started = new Load(...load);
      loads.push(started);
      return started;
    }

    // Also of a test that failed.
    afterEach(async () => {
      await Promise.all(loads.map((load) => load.end()));
    });

    it.each(rows)(
      '$name: only its requests fail, at once, and nothing is sent',
      async (row) => {
        const { cluster } = place;
        const before = cluster.gateway.seen.count();
        const load = startLoad(() => cluster.processes.flatMap(requestsOf), every);
        await wait(500);
        await row.begin(place);
        const beganAt = performance.now();
        await wait(length);
        const states = await Promise.all(cluster.processes.map((one) => one.instanceStatus()));
        const endsAt = performance.now();
        await row.end(place);
        const endedAt = performance.now();
        await wait(promised + 1000);
        await load.end();

        const transit = load.hits.filter(({ name }) => name === 'status transit');
        const failed = transit.filter(
          ({ result, sentAt }) => result !== '200 answered' && !(result === row.between && sentAt > endsAt),
        );
        const during = transit.filter(
          ({ sentAt }) => sentAt > beganAt + 1100 && sentAt < endedAt - deadline * 1000 - 100,
        );
        expect(resultsOf(load.hits.filter(({ name }) => name !== 'status transit'))).toEqual([
          '200 answered',
        ]);
        expect(resultsOf(failed)).toEqual([row.result]);
        expect(during.length).toBeGreaterThan(20);
        expect(resultsOf(during)).toEqual([row.result]);
        // Nothing was sent of what failed, and everything else once.
        expect(cluster.gateway.seen.count() - before).toBe(load.hits.length - failed.length);
        expect(Math.max(...failed.map(({ took }) => took))).toBeLessThan(deadline * 1000 + 800);
        expect(Math.max(...failed.map(({ sentAt }) => sentAt))).toBeLessThan(endedAt + promised);
        for (const { findings } of states)
          expect(findings).toContainEqual(
            expect.objectContaining({ summary: expect.stringMatching(row.cause) }),
          );
      },
      60_000,
    );

    it('a storm of 403s of the gateway does not become one at Vault', async () => {
      const { cluster, vault } = place;
      /** Requests for a signature that Vault received; unknown of a real server. */
      const signRequests = () => vault.stub?.count(/^POST transit\/sign/) ?? 0;
      // Two keys, of which the gateway accepts neither: each 403 is a reason to try the other one.
      await cluster.putInVault('transit', await cluster.newTransitKeys('transit-2'));
      cluster.acceptOnly('transit');
      await wait(fresh * 1000);
      const [before, sentBefore] = [signRequests(), cluster.gateway.seen.count()];
      const load = startLoad(() => cluster.processes.map((one) => statusOf(one, 'transit')), 20);
      await wait(length);
      await load.end();
      expect(resultsOf(load.hits)).toEqual(['403 answered']);
      expect(cluster.gateway.seen.count() - sentBefore).toBeLessThan(1.2 * load.hits.length);
      expect(signRequests() - before).toBeLessThan(1.2 * load.hits.length);
    }, 30_000);

    it('leaks no secret', async () => {
      expect(await place.cluster.leaks(...loads.map((load) => load.seen()))).toEqual([]);
    });
  });
});
