import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Folder } from '../support/folder.ts';
import { post, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import type { Load } from '../support/load.ts';
import { cached, type OutageResult, runOutage } from '../support/outage-run.ts';
import {
  kubernetesApiAway,
  type Outage,
  type OutageContext,
  outages,
  revokedTokenOfAFile,
  VaultTrust,
} from '../support/outages.ts';
import { failingVaults } from '../support/real-vault-server.ts';
import { describeWith } from '../support/requires.ts';
import { vaultKeys } from '../support/stub-vault/harness.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { balanceOf, TestCluster, type VaultAuth } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

// Seconds count here, and another program may take the processor for one.
jest.retryTimes(2, { logErrorsBeforeRetry: true, retryImmediately: true });

const processes = 2;
/** Seconds: TTL of a key, and the timeout of a request to Vault. */
const [fresh, deadline] = [1, 1];
/** Seconds after Vault's recovery within which a login without a cached key must be read. */
const promised = 2;

interface LogIn {
  readonly by: string;
  readonly auth: (place: Pick<OutageContext, 'cluster' | 'vault'>) => Promise<VaultAuth>;
  readonly rows: readonly Outage[];
}
const logIns: readonly LogIn[] = [
  { by: 'AppRole', auth: ({ cluster }) => cluster.appRole(), rows: outages },
  { by: 'a token from a file', auth: ({ cluster }) => cluster.tokenFile(), rows: [revokedTokenOfAFile] },
  {
    by: 'a service account of Kubernetes',
    auth: ({ cluster, vault }) => cluster.serviceAccount(vault),
    rows: [kubernetesApiAway],
  },
];
/** A login that was never requested, for each outage. */
const uncachedOf = ({ name }: Outage): string => `uncached-${name.replaceAll(/[^a-z]+/gi, '-')}`;
const logins = [...cached, ...logIns.flatMap(({ rows }) => rows.map(uncachedOf))];

describeWith('openssl')('during a Vault outage under load (needs the program openssl),', () => {
  describe.each(failingVaults)('$server', ({ start }) => {
    describe.each(logIns)('with $by', ({ auth, rows }) => {
      const loads: Load[] = [];
      const folder = new Folder();
      let place: OutageContext;

      beforeAll(async () => {
        const trust = new VaultTrust(folder);
        const vault = await start(trust);
        const times = { fresh: `${fresh}s`, vaultTimeout: `${deadline}s` };
        const cluster = new TestCluster({ logins, ...times, server: vault });
        place = { cluster, vault, trust };
        await cluster.open();
      }, 60_000);
      // The third outage of a process within a minute would count as flapping.
      beforeEach(async () => {
        await place.cluster.endProcesses();
        await place.cluster.startProcesses(processes, await auth(place));
        await cacheKeys(place.cluster);
        // A token that was valid within the last second is not suspected of being revoked.
        await wait(1100);
      }, 60_000);
      afterAll(async () => {
        await place.cluster.close();
        await place.vault.close();
        folder.remove();
      }, 30_000);

      it.each(rows)(
        '$name: cached keys sign, and the recovery is noticed',
        async (outage) => {
          const result = await runOutage(outage, place, uncachedOf(outage));
          loads.push(result.load);
          expectNothingFailed(result);
          expectSaid(outage, result);
          expect(result.firstRead - result.stalled).toBeLessThan(promised);
          expectBoundedReads(outage, result);
        },
        60_000,
      );

      it('leaks no secret', async () => {
        expect(await place.cluster.leaks(...loads.map((load) => load.seen()))).toEqual([]);
      });
    });
  });
});

/** Makes every process cache the keys of the logins. */
async function cacheKeys(cluster: TestCluster): Promise<void> {
  for (const one of cluster.processes) {
    for (const login of cached) {
      const { url } = balanceOf(one, login);
      await until(async () => (await post(url, '')).status === 200, `the keys of ${login} are cached`, 30);
    }
  }
}

function expectNothingFailed({ load }: OutageResult): void {
  expect(load.rate).toBeGreaterThan(50);
  expect(load.results(/./)).toEqual({ '200 answered': expect.any(Number) });
}

/** Status, alerts and log of each process. */
function expectSaid({ cause, says }: Outage, result: OutageResult): void {
  const { lines, mostLines, uncached, ...shown } = says;
  expect(result.said).toEqual(Array(processes).fill(shown));
  expect(uncached).toEqual(expect.arrayContaining([...result.uncachedDuring]));
  const [least, mostBegins, mostEnds] = lines === undefined ? [0, 0, 0] : [1, ...(mostLines ?? [2, 1])];
  const because = cause === undefined ? {} : { cause: expect.stringMatching(cause) };
  for (const [index, begins] of result.begins.entries()) {
    const ends = result.ends[index] ?? [];
    for (const [count, most] of [
      [begins.length, mostBegins],
      [ends.length, mostEnds],
    ] as const) {
      expect(count).toBeGreaterThanOrEqual(least);
      expect(count).toBeLessThanOrEqual(most);
    }
    for (const line of begins.slice(-1)) expect(line).toMatchObject({ level: 'error', ...because });
    for (const line of ends) expect(line).toMatchObject({ level: 'info' });
  }
}

/** During an outage there are few requests to Vault; otherwise each key is read when it is stale, also afterward. */
function expectBoundedReads({ cause, says }: Outage, result: OutageResult): void {
  const { readsDuring = 0, secondsDuring, readsAfter, secondsAfter } = result;
  const refreshed = (seconds: number) => processes * logins.length * (Math.ceil(seconds / (fresh * 0.9)) + 1);
  // Those in flight at first, at most eight per process, and then one probe per second.
  const probed = processes * (8 + secondsDuring);
  const some = cause === undefined || says.uncached.includes('200');
  const bound = some ? refreshed(secondsDuring) : probed;
  expect(readsDuring).toBeLessThanOrEqual(bound);
  expect(readsAfter).toBeLessThanOrEqual(refreshed(secondsAfter));
}

describe('a Vault that is slower than the timeout of a gateway request', () => {
  const starts = harness();

  it('does not delay requests', async () => {
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
});
