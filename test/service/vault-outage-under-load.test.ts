import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Answer, askBalance, post, verdict } from '../support/forwarding.ts';
import { Load, type Shot, tell, waitUntil } from '../support/load.ts';
import { startProxy, type TestProxy } from '../support/service.ts';
import { balanceOf, Site, statusOf } from '../support/site.ts';
import { StubVault } from '../support/stub-vault/server.ts';

const processes = 2;
const cached = Array.from({ length: 10 }, (_, index) => `login-${index}`);
/** Seconds: how long a key is fresh, the deadline of a request to Vault, and how long Vault is away. */
const [fresh, deadline, away] = [1, 1, 3];

describe('while Vault is away, under load,', () => {
  let site: Site;
  let load: Load;
  let waves = 0;

  beforeEach(async () => {
    const logins = [...cached, 'never-asked'];
    site = await new Site({ logins, fresh: `${fresh}s`, vaultTimeout: `${deadline}s` }).open();
    await site.startProcesses(processes, await site.appRole());
    load = new Load(wave, 200);
    await wait(1200);
  }, 20_000);
  afterEach(() => site.close());

  /** Every cached login once for each process: balances and statuses in turn. */
  function wave(): Shot[] {
    waves += 1;
    const shot = waves % 2 === 0 ? balanceOf : statusOf;
    return site.processes.flatMap((one) => cached.map((login) => shot(one, login)));
  }

  const askUncached = (): Promise<Answer[]> =>
    Promise.all(site.processes.map((one) => post(balanceOf(one, 'never-asked').url, '')));

  type Change = (site: Site, port: number) => unknown;
  const outages: readonly (readonly [string, Change, Change])[] = [
    ['killed', ({ vault }) => vault.close(), ({ vault }, port) => vault.listen(port)],
    ['a black hole', ({ vault }) => vault.fail({ kind: 'black-hole' }), ({ vault }) => vault.heal()],
  ];

  it.each(outages)(
    '%s, cached keys sign, and Vault is not overrun after',
    async (name, leave, comeBack) => {
      const { port } = site.vault;
      const atFirst = site.vaultReads;
      await leave(site, port);
      const asked = performance.now();
      const uncached = await askUncached();
      const took = performance.now() - asked;
      await wait(away * 1000 - took);
      const meanwhile = {
        'requests to Vault': site.vaultReads - atFirst,
        key_source_up: await site.metric('key_source_up'),
        '/readyz': await Promise.all(site.processes.map((one) => one.readiness())),
      };
      const beforeReturn = site.vaultReads;
      await comeBack(site, port);
      const returned = performance.now();
      await waitUntil(
        async () => (await site.metric('key_source_up')) === processes,
        'Vault is in use again',
      );
      const inUse = (performance.now() - returned) / 1000;
      const uncachedAfter = await askUncached();
      await wait(500);
      await load.end();
      const after = site.vaultReads - beforeReturn;
      const secondsAfter = (performance.now() - returned) / 1000;
      tell(`Vault is ${name} for ${away} s; keys are fresh for ${fresh} s`, {
        'requests a second': Math.round(load.rate),
        'of logins with a cached key': load.results(/./),
        'slowest, ms': Math.round(load.slowest),
        'of a login without one': uncached.map(({ status, body }) => `${status} ${JSON.parse(body).reason}`),
        'slowest of these, ms': Math.round(took),
        ...meanwhile,
        'Vault in use again after, s': Math.round(inUse * 10) / 10,
        [`Vault reads in the ${Math.round(secondsAfter * 10) / 10} s after its return`]: after,
      });

      expect(load.rate).toBeGreaterThan(50);
      expect(load.results(/./)).toEqual({ '200 answered': expect.any(Number) });
      for (const { status, headers, body } of uncached) {
        expect({ status, retryAfter: headers['retry-after'] }).toEqual({ status: 503, retryAfter: '5' });
        expect(JSON.parse(body)).toMatchObject({ reason: 'key-source-unavailable', outcome: 'not-sent' });
      }
      expect(took).toBeLessThan(deadline * 1000 + 1000);
      expect(uncachedAfter.map(({ status }) => status)).toEqual(Array(processes).fill(200));
      expect(meanwhile).toMatchObject({ key_source_up: 0, '/readyz': Array(processes).fill(200) });
      // The reads that were under way at first, at most eight a process, and then one probe after each wait.
      expect(meanwhile['requests to Vault']).toBeLessThanOrEqual(processes * (8 + away));
      // Each login when its key is not fresh any more, as at any other time.
      const refreshes = Math.ceil(secondsAfter / (fresh * 0.9)) + 1;
      expect(after).toBeLessThanOrEqual(processes * (cached.length + 1) * refreshes);
      expect(await site.leaks(load.seen(), JSON.stringify([uncached, uncachedAfter]))).toEqual([]);
    },
    30_000,
  );
});

describe('a Vault that takes longer than an exchange with the gateway may', () => {
  const vault = new StubVault();
  let proxy: TestProxy;

  beforeAll(async () => {
    const address = await vault.listen();
    vault.fail({ kind: 'black-hole' });
    const auth = { method: 'token' as const, token: 'hvs.MARK-token-of-a-slow-vault' };
    proxy = await startProxy({
      gateway: 'http://127.0.0.1:9',
      sandbox: { deadlines: { connect: '500ms', exchange: '500ms' } },
      config: { keys: { source: 'vault', vault: { address, timeout: '10s', auth } } },
    });
  });
  afterAll(async () => {
    await vault.close();
    await proxy.stop();
  });

  it('is not waited for', async () => {
    const asked = performance.now();
    const answer = await askBalance(proxy);
    expect(performance.now() - asked).toBeLessThan(5000);
    expect(verdict(answer)).toBe('503 key-source-unavailable not-sent not-sent');
    expect(answer.headers['retry-after']).toBe('5');
  });
});
