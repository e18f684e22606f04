import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { Countersign } from '../support/countersign.ts';
import { type FailingVault, type Failure, failingVaults } from '../support/failing-vaults.ts';
import { Folder } from '../support/folder.ts';
import { post, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { Load, type LoadRequest } from '../support/load.ts';
import { describeWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { approleMount, roleName, vaultKeys } from '../support/stub-vault/harness.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { balanceOf, statusOf, TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

// Seconds count here, and another program may take the processor for one.
jest.retryTimes(2, { logErrorsBeforeRetry: true, retryImmediately: true });

const starts = harness();
const processes = 2;
/** Seconds: TTL of a key, and the timeout of a request to Vault. */
const [fresh, deadline] = [1, 1];
/** Seconds of an outage. */
const length = 2.5;
/** Milliseconds after the recovery within which a login without a cached key must be read: two seconds, and as much for a busy machine. */
const promised = 4000;
const cached = Array.from({ length: 10 }, (_, index) => `cached-${index}`);

interface Outage {
  readonly name: string;
  /** State in the status. */
  readonly state: 'up' | 'down';
  /** The response for a login without a cached key. */
  readonly uncached: string;
  /** The log line of the beginning, with this cause, and that of the end; how many of each a process writes at most. */
  readonly lines?: readonly [begins: string, ends: string];
  readonly cause?: RegExp;
  readonly mostLines?: readonly [number, number];
  /** Milliseconds for which a login without keys is remembered. */
  readonly remembered?: number;
  readonly failure: (vault: FailingVault, cluster: TestCluster) => Failure;
}

const down = {
  state: 'down',
  uncached: '503 key-source-unavailable',
  lines: ['key source unavailable', 'key source available again'],
} as const;
const longLived = { token_policies: [roleName], token_ttl: 3600, token_max_ttl: 0 };

const outages: readonly Outage[] = [
  {
    name: 'killed',
    ...down,
    // A read that was in flight is reset.
    cause: /cannot be reached \((connection refused: ECONNREFUSED|ECONNRESET)\)/,
    failure: ({ failures }) => failures.killed,
  },
  {
    name: 'hung',
    ...down,
    cause: /did not respond in time/,
    failure: ({ failures }) => failures.hung,
  },
  {
    name: 'sealed',
    ...down,
    cause: /is sealed \(HTTP 503\)/,
    failure: ({ failures }) => failures.sealed,
  },
  {
    name: 'rate-limited',
    ...down,
    cause: /rate-limited by Vault \(HTTP 429\)/,
    failure: ({ failures }) => failures['rate-limited'],
  },
  {
    name: 'token revoked',
    state: 'up',
    uncached: '200 answered',
    failure: (_vault, { admin }) => ({ begin: () => admin.revokeAll(approleMount), end: async () => {} }),
  },
  {
    name: 'secret ID used up',
    ...down,
    // A real server may respond with 500 to logins at the same time, which is another cause.
    mostLines: [2, 1],
    cause: /rejected the credentials \(HTTP 400, approle\)/,
    failure: (_vault, cluster) => ({
      async begin() {
        // Each process logs in once more and gets a short-lived token.
        const short = { ...longLived, token_ttl: 3, token_max_ttl: 3 };
        await cluster.admin.role(approleMount, roleName, short);
        await cluster.newSecretId({ num_uses: processes });
        await cluster.admin.revokeAll(approleMount);
        // Up to a second until the revocation is noticed, plus the token's TTL.
        await wait(5000);
      },
      async end() {
        await cluster.admin.role(approleMount, roleName, longLived);
        await cluster.newSecretId();
      },
    }),
  },
  {
    name: 'mount re-created',
    state: 'up',
    uncached: '502 key-missing',
    lines: [
      'login not found in the key source; its cached keys are used',
      'no login with cached keys is missing in the key source any more',
    ],
    // One for the first login, and whenever their number has doubled.
    mostLines: [4, 1],
    remembered: 10_000,
    failure: (_vault, cluster) => ({
      async begin() {
        const { admin } = cluster;
        await admin.request('DELETE', 'sys/mounts/secret');
        await admin.enable('mounts', 'secret', { type: 'kv', options: { version: '2' } });
        await until(async () => (await admin.send('GET', 'secret/data/any')).status === 404, 'it is mounted');
      },
      end: () => cluster.putAllInVault(),
    }),
  },
];
/** A login that was never requested, for each outage. */
const uncachedOf = ({ name }: Outage): string => `uncached-${name.replaceAll(/[^a-z]+/gi, '-')}`;
const uncachedFrom = (one: Countersign, outage: Outage): LoadRequest => ({
  ...balanceOf(one, uncachedOf(outage)),
  name: one.url,
});
const logins = [...cached, ...outages.map(uncachedOf)];

describeWith('openssl')('during a Vault outage under load (needs the program openssl),', () => {
  describe.each(failingVaults)('$server', ({ start }) => {
    const loads: Load[] = [];
    const folder = new Folder();
    let vault: FailingVault;
    let cluster: TestCluster;

    beforeAll(async () => {
      vault = await start(new Ca(folder.path, 'ca'));
      const times = { fresh: `${fresh}s`, vaultTimeout: `${deadline}s` };
      cluster = await new TestCluster({ logins, ...times, server: vault }).open();
    }, 60_000);
    // The third outage of a process within a minute would count as flapping.
    beforeEach(async () => {
      await cluster.endProcesses();
      await cluster.startProcesses(processes, await cluster.appRole());
      for (const one of cluster.processes)
        for (const { url } of cached.map((login) => balanceOf(one, login)))
          await until(async () => (await post(url, '')).status === 200, 'the keys are cached', 30);
      // A token that was valid within the last second is not suspected of being revoked.
      await wait(1100);
    }, 60_000);
    afterAll(async () => {
      await cluster.close();
      await vault.close();
      folder.remove();
    }, 30_000);

    /** Balances and statuses in turn, of every cached login once per process. */
    const waves = () => {
      let count = 0;
      return () => {
        count += 1;
        const request = count % 2 === 0 ? balanceOf : statusOf;
        return cluster.processes.flatMap((one) => cached.map((login) => request(one, login)));
      };
    };

    it.each(outages)(
      '$name: cached keys sign, and the recovery is noticed',
      async (outage) => {
        const { state, lines, cause, mostLines: [mostBegins, mostEnds] = [2, 1], remembered = 0 } = outage;
        const { begin, end } = outage.failure(vault, cluster);
        const load = new Load(waves(), 200);
        await wait(500);
        await begin();
        const [readsBefore, beganAt] = [await vault.reads(), performance.now()];
        const uncached = new Load(() => cluster.processes.map((one) => uncachedFrom(one, outage)), 100);
        loads.push(load, uncached);
        await wait(length * 1000);
        const during = uncached.hits.map(({ result }) => result);
        const statuses = await Promise.all(cluster.processes.map((one) => one.instanceStatus()));
        const [readsAfter, seconds] = [await vault.reads(), (performance.now() - beganAt) / 1000];
        await end();
        const endedAt = performance.now();
        const hasRead = ({ url }: Countersign): boolean =>
          uncached.hits.some(
            ({ name, result, sentAt }) =>
              name === url && result === '200 answered' && sentAt > endedAt - 1000,
          );
        await until(() => cluster.processes.every(hasRead), 'its keys are read');
        expect(performance.now() - endedAt).toBeLessThan(promised + remembered);
        const linesOf = (message = '') => cluster.processes.map((one) => one.logLines(message));
        const isOver = () => lines === undefined || linesOf(lines[1]).every((ends) => ends.length > 0);
        await until(isOver, 'the log says that it is over');
        for (const one of [load, uncached]) await one.end();

        expect(load.rate).toBeGreaterThan(50);
        expect(load.results(/./)).toEqual({ '200 answered': expect.any(Number) });
        expect(during.filter((result) => result !== outage.uncached)).toEqual([]);
        expect(statuses.map(({ keySource }) => keySource.state ?? 'up')).toEqual([state, state]);
        if (lines !== undefined) {
          const counts = (message: string) => linesOf(message).map(({ length: count }) => count);
          expect(Math.min(...counts(lines[0]))).toBeGreaterThan(0);
          expect(Math.max(...counts(lines[0]))).toBeLessThanOrEqual(mostBegins);
          expect(Math.max(...counts(lines[1]))).toBeLessThanOrEqual(mostEnds);
        }
        if (cause !== undefined) {
          const line = { level: 'error', cause: expect.stringMatching(cause) };
          for (const begins of linesOf(lines?.[0])) expect(begins.at(-1)).toMatchObject(line);
          // Those in flight at first, at most eight per process, and then one probe per second.
          expect((readsAfter ?? 0) - (readsBefore ?? 0)).toBeLessThanOrEqual(processes * (8 + seconds));
        }
      },
      60_000,
    );

    it('leaks no secret', async () => {
      expect(await cluster.leaks(...loads.map((load) => load.seen()))).toEqual([]);
    });
  });
});

it('a Vault that is slower than the timeout of a gateway request does not delay requests', async () => {
  const vault = starts.closing(new StubVault());
  const address = await vault.listen();
  vault.fail({ kind: 'black-hole' });
  const proxy = await starts.proxy({
    sandbox: { timeouts: { connect: '500ms', request: '500ms' } },
    config: { keys: vaultKeys(address, { timeout: '10s' }) },
  });
  const startedAt = performance.now();
  const response = await proxy.balance();
  expect(performance.now() - startedAt).toBeLessThan(5000);
  expect(verdict(response)).toBe('503 key-source-unavailable not-sent not-sent');
  expect(response.headers['retry-after']).toBe('5');
});
