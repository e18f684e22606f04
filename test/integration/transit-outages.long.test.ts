import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { type FailingVault, type Failure, failingVaults } from '../support/failing-vaults.ts';
import { Folder } from '../support/folder.ts';
import { post } from '../support/forwarding.ts';
import { type Hit, Load } from '../support/load.ts';
import { describeWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { roleName } from '../support/stub-vault/harness.ts';
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

interface Row {
  readonly name: string;
  /** Of requests that Vault does not sign. */
  readonly result: string;
  /** Also, while the gateway does not have the new key yet. */
  readonly between?: string;
  /** In the finding. */
  readonly cause: RegExp;
  readonly failure: (vault: FailingVault, cluster: TestCluster) => Failure;
}

const result = '503 signing-unavailable';
const rows: readonly Row[] = [
  { name: 'killed', result, cause: /Vault cannot be reached/, failure: ({ failures }) => failures.killed },
  { name: 'hung', result, cause: /did not respond in time/, failure: ({ failures }) => failures.hung },
  { name: 'sealed', result, cause: /Vault is sealed/, failure: ({ failures }) => failures.sealed },
  {
    name: 'rate-limited',
    result,
    cause: /rate-limited by Vault/,
    failure: ({ failures }) => failures['rate-limited'],
  },
  {
    name: 'denied',
    result,
    cause: /Vault denied permission/,
    failure: (_vault, cluster) => ({
      begin() {
        const path = { 'secret/data/gateway/*': { capabilities: ['read'] } };
        return cluster.admin.policyText(roleName, JSON.stringify({ path }));
      },
      end: () => cluster.writePolicy(),
    }),
  },
  {
    name: 'key deleted, then made anew',
    result: '502 key-unusable',
    between: '403 answered',
    cause: /cannot be used/,
    failure: (_vault, cluster) => ({
      async begin() {
        await cluster.admin.send('POST', 'transit/keys/transit/config', { deletion_allowed: true });
        await cluster.admin.send('DELETE', 'transit/keys/transit');
      },
      async end() {
        const publicKey = await cluster.admin.newTransitKey('transit');
        cluster.acceptOnly('transit', { ...cluster.first, publicKey });
      },
    }),
  },
];

const resultsOf = (hits: readonly Hit[]): readonly string[] => [...new Set(hits.map(({ result }) => result))];

describeWith('openssl')('while Vault does not sign (needs the program openssl),', () => {
  describe.each(failingVaults)('$server', ({ start }) => {
    const folder = new Folder();
    const loads: Load[] = [];
    let vault: FailingVault;
    let cluster: TestCluster;

    beforeAll(async () => {
      vault = await start(new Ca(folder.path, 'ca'));
      const times = { fresh: `${fresh}s`, vaultTimeout: `${deadline}s` };
      cluster = new TestCluster({ logins: ['secret', 'transit'], ...times, server: vault });
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
      await cluster.close();
      await vault.close();
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
        const failure = row.failure(vault, cluster);
        const before = cluster.gateway.seen.count();
        const load = startLoad(() => cluster.processes.flatMap(requestsOf), every);
        await wait(500);
        await failure.begin();
        const beganAt = performance.now();
        await wait(length);
        const states = await Promise.all(cluster.processes.map((one) => one.instanceStatus()));
        const endsAt = performance.now();
        await failure.end();
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
      const signatures = () => cluster.metric('transit_signature_duration_seconds_count');
      // Two keys, of which the gateway accepts neither: each 403 is a reason to try the other one.
      await cluster.putInVault('transit', await cluster.newTransitKeys('transit-2'));
      cluster.acceptOnly('transit');
      await wait(fresh * 1000);
      const [before, sentBefore] = [await signatures(), cluster.gateway.seen.count()];
      const load = startLoad(() => cluster.processes.map((one) => statusOf(one, 'transit')), 20);
      await wait(length);
      await load.end();
      expect(resultsOf(load.hits)).toEqual(['403 answered']);
      expect(cluster.gateway.seen.count() - sentBefore).toBeLessThan(1.2 * load.hits.length);
      expect((await signatures()) - before).toBeLessThan(1.2 * load.hits.length);
    }, 30_000);

    it('leaks no secret', async () => {
      expect(await cluster.leaks(...loads.map((load) => load.seen()))).toEqual([]);
    });
  });
});
