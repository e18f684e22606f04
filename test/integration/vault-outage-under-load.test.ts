import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { askBalance, post, verdict } from '../support/forwarding.ts';
import { waitUntil } from '../support/load.ts';
import { outageSeconds, cached, type OutageResult, runOutage, printOutages } from '../support/outage-run.ts';
import {
  type FailingVault,
  type Outage,
  outages,
  type OutageContext,
  revokedTokenOfAFile,
  VaultTrust,
} from '../support/outages.ts';
import { startRealVault } from '../support/real-vault-server.ts';
import { describeWith } from '../support/requires.ts';
import { startProxy, type TestProxy } from '../support/service.ts';
import { startFailingStub } from '../support/stub-vault/failing-stub.ts';
import { Folder } from '../support/stub-vault/harness.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { balanceOf, TestCluster, type VaultAuth } from '../support/test-cluster.ts';

interface Server {
  readonly server: string;
  readonly start: (trust: VaultTrust) => Promise<FailingVault>;
}

const processes = 2;
/** Seconds: how long a key is fresh, and the deadline of a request to Vault. */
const [fresh, deadline] = [1, 1];
/** Seconds from the return of Vault in which a login without a cached key has to be read. */
const promised = 2;

const program = process.env['VAULT_BIN'];
const stub: Server = { server: 'the stub', start: startFailingStub };
const vaults =
  program === undefined
    ? [stub]
    : [stub, { server: 'a real server', start: (trust: VaultTrust) => startRealVault(program, trust) }];
if (program === undefined) process.stderr.write('skipped: outages of a real server (set VAULT_BIN)\n');
const logIns = [
  { by: 'AppRole', auth: (site: TestCluster): Promise<VaultAuth> => site.appRole(), rows: outages },
  {
    by: 'a token from a file',
    auth: (site: TestCluster): Promise<VaultAuth> => site.tokenFile(),
    rows: [revokedTokenOfAFile],
  },
];
/** For each outage a login that was never asked for. */
const uncachedOf = ({ name }: Outage): string => `uncached-${name.replaceAll(/[^a-z]+/gi, '-')}`;
const logins = [...cached, ...[...outages, revokedTokenOfAFile].map(uncachedOf)];

describeWith('openssl')('while Vault is away, under load (needs the program openssl),', () => {
  describe.each(vaults)('$server', ({ server, start }) => {
    describe.each(logIns)('with $by', ({ by, auth, rows }) => {
      const results: [Outage, OutageResult][] = [];
      const folder = new Folder();
      let place: OutageContext;

      beforeAll(async () => {
        const trust = new VaultTrust(folder);
        const vault = await start(trust);
        const times = { fresh: `${fresh}s`, vaultTimeout: `${deadline}s` };
        const site = new TestCluster({ logins, ...times, server: vault });
        place = { site, vault, trust };
        await site.open();
        await site.startProcesses(processes, await auth(site));
        await holdKeys(site);
      }, 60_000);
      afterAll(async () => {
        printOutages(`Outages of ${server}, ${processes} processes that log in by ${by}`, results);
        await place.site.close();
        await place.vault.close();
        folder.remove();
      }, 30_000);

      it.each(rows)(
        '$name: cached keys sign, and the return is noticed',
        async (outage) => {
          const result = await runOutage(outage, place, uncachedOf(outage));
          results.push([outage, result]);
          expectNothingFailed(result);
          expectLines(outage, result);
          expect(result.firstGoodRead).toBeLessThan(promised);
          expectBoundedReads(outage, result);
        },
        60_000,
      );

      it('leaks no secret', async () => {
        expect(await place.site.leaks(...results.map(([, { load }]) => load.seen()))).toEqual([]);
      });
    });
  });
});

/** Has every process read the keys of the logins that are to be cached. */
async function holdKeys(site: TestCluster): Promise<void> {
  for (const one of site.processes) {
    for (const login of cached) {
      const { url } = balanceOf(one, login);
      await waitUntil(async () => (await post(url, '')).status === 200, `the keys of ${login} are held`, 30);
    }
  }
}

function expectNothingFailed({ load }: OutageResult): void {
  expect(load.rate).toBeGreaterThan(50);
  expect(load.results(/./)).toEqual({ '200 answered': expect.any(Number) });
}

/** In the log of each process one line of the beginning, and one of the end. */
function expectLines({ cause }: Outage, { begins: beginnings, ends, uncachedDuring: uncachedWhileAway }: OutageResult): void {
  const once = (line: unknown) => Array(processes).fill(cause === undefined ? [] : [line]);
  const beginning = { level: 'error', cause: expect.stringMatching(cause ?? /./), seconds: 0 };
  expect(beginnings).toEqual(once(expect.objectContaining(beginning)));
  expect(ends).toEqual(once(expect.objectContaining({ level: 'info', seconds: expect.any(Number) })));
  expect(uncachedWhileAway).toEqual([cause === undefined ? '200' : '503 key-source-unavailable']);
}

/** In an outage little is asked of Vault; else each key is read when it is not fresh any more, also after it. */
function expectBoundedReads({ cause }: Outage, result: OutageResult): void {
  const { readsDuring: readsWhileAway = 0, readsAfter, secondsAfter } = result;
  const refreshed = (seconds: number) => processes * logins.length * (Math.ceil(seconds / (fresh * 0.9)) + 1);
  // Those in flight at first, at most eight a process, and then one probe a second.
  const probed = processes * (8 + outageSeconds);
  expect(readsWhileAway).toBeLessThanOrEqual(cause === undefined ? refreshed(outageSeconds) : probed);
  expect(readsAfter).toBeLessThanOrEqual(refreshed(secondsAfter));
}

describe('a Vault that is slower than the timeout of a gateway request', () => {
  const vault = new StubVault();
  let proxy: TestProxy;

  beforeAll(async () => {
    const address = await vault.listen();
    vault.fail({ kind: 'black-hole' });
    const auth = { method: 'token' as const, token: 'hvs.MARK-token-of-a-slow-vault' };
    proxy = await startProxy({
      gateway: 'http://127.0.0.1:9',
      sandbox: { timeouts: { connect: '500ms', request: '500ms' } },
      config: { keys: { source: 'vault', vault: { address, timeout: '10s', auth } } },
    });
  });
  afterAll(async () => {
    await vault.close();
    await proxy.stop();
  });

  it('does not delay requests', async () => {
    const asked = performance.now();
    const answer = await askBalance(proxy);
    expect(performance.now() - asked).toBeLessThan(5000);
    expect(verdict(answer)).toBe('503 key-source-unavailable not-sent not-sent');
    expect(answer.headers['retry-after']).toBe('5');
  });
});
