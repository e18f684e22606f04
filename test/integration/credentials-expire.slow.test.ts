import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Load, printNumbers } from '../support/load.ts';
import { type CountersignProcess } from '../support/process.ts';
import { roleName } from '../support/stub-vault/harness.ts';
import { balanceOf, TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

/** TTL of a Vault token in seconds; keys are read more often than that. */
const life = 2;
const jwts = ['first', 'second', 'third'].map((name) => `eyJ.${name}-MARK-service-account.${'x'.repeat(20)}`);

describe('a Vault credential that is no longer valid', () => {
  let cluster: TestCluster;
  let load: Load;
  let startedAt: number;
  const by: Record<string, CountersignProcess> = {};

  /** Four processes in parallel, each with another auth method, all under load. */
  beforeAll(async () => {
    cluster = await new TestCluster({ fresh: '500ms' }).open();
    const { tokens, kubernetes } = cluster.vault.world();
    const jwtFile = cluster.secretFile('jwt', jwts[0] ?? '');
    kubernetes.accept(jwts[0] ?? '');
    kubernetes.role('signer', { policies: [roleName], ttl: life, maxTtl: life });
    const token = cluster.secret('hvs.MARK-static-token-4711');
    tokens.create(Date.now(), { id: token, policies: [roleName], ttl: 4 * life, renewable: false });
    const short = { token_ttl: life, token_max_ttl: life + 1 };
    const ways = {
      'max-ttl': await cluster.appRole('max-ttl', short),
      'used-up': await cluster.appRole('used-up', { ...short, secret_id_num_uses: 1 }),
      kubernetes: { method: 'kubernetes', role: 'signer', jwtFile },
      token: { method: 'token', tokenFile: cluster.secretFile('token', token) },
    } as const;
    const started = Object.entries(ways).map(async ([name, auth]) => {
      const [one] = await cluster.startProcesses(1, auth);
      if (one === undefined) return;
      by[name] = one;
      // Before its credential ends, it has the keys.
      expect((await one.balance()).status).toBe(200);
    });
    await Promise.all(started);
    const wave = () => Object.entries(by).map(([name, one]) => ({ ...balanceOf(one, 'acme'), name }));
    load = new Load(wave, 60);
    startedAt = performance.now();
  }, 30_000);

  afterAll(async () => {
    await load.end();
    await cluster.close();
  });

  function processOf(name: string): CountersignProcess {
    const one = by[name];
    if (one === undefined) throw new Error(`no process ${name}`);
    return one;
  }

  const isUp = async (name: string) => (await processOf(name).metric('key_source_up')) === 1;
  const expiryOf = async (name: string) =>
    (await processOf(name).metric('vault_token_expiry_timestamp_seconds')) ?? Number.NaN;
  const errorsOf = (name: string) =>
    processOf(name)
      .logLines()
      .filter(({ level }) => level === 'error')
      .map(({ msg, cause }) => [msg, cause].join(' ').trim());

  /** In the log and in two metrics, while cached keys stay in use. */
  async function expectAlert(name: string, message: string): Promise<void> {
    const one = processOf(name);
    await until(() => errorsOf(name).some((text) => text.includes(message)), `${name} says so`);
    await until(async () => (await one.metric('key_source_up')) === 0, `${name} shows it`);
    await until(async () => (await expiryOf(name)) < Date.now() / 1000, `${name} shows its end as past`);
    expect(await one.metric('key_problems_total')).toBeGreaterThan(0);
    expect(await one.readiness()).toBe(200);
  }

  async function expectRecovery(name: string): Promise<void> {
    const from = performance.now();
    await until(() => isUp(name), `${name} has recovered`);
    printNumbers(`${name}: recovered`, { 'after, s': Math.round((performance.now() - from) / 100) / 10 });
    expect(await expiryOf(name)).toBeGreaterThan(Date.now() / 1000);
  }

  it('because a secret ID is used up, raises an alert until its file has another one', async () => {
    await expectAlert('used-up', 'Vault rejected the credentials (HTTP 400, approle)');
    await cluster.newSecretId('used-up');
    await expectRecovery('used-up');
  });

  it('because a service account token was rotated, is replaced by the next login, or raises an alert', async () => {
    const { kubernetes } = cluster.vault.world();
    const logins = () => cluster.vault.count(/auth\/kubernetes\/login/);
    const before = logins();
    kubernetes.accept(jwts[1] ?? '');
    cluster.secretFile('jwt', jwts[1] ?? '');
    kubernetes.reject(jwts[0] ?? '');
    await until(() => logins() > before, 'it has logged in again');
    expect(await isUp('kubernetes')).toBe(true);
    expect(errorsOf('kubernetes')).toEqual([]);
    kubernetes.reject(jwts[1] ?? '');
    await expectAlert('kubernetes', 'Vault rejected the credentials (HTTP 403, kubernetes)');
    kubernetes.accept(jwts[2] ?? '');
    cluster.secretFile('jwt', jwts[2] ?? '');
    await expectRecovery('kubernetes');
  });

  it('because a token from a file has expired, is announced before, and raises an alert', async () => {
    await expectAlert('token', 'Vault rejected the credentials (HTTP 403, token)');
    expect(errorsOf('token')[0]).toMatch(/^the configured Vault token expires at \d{4}-.*; replace it/);
    const token = cluster.secret('hvs.MARK-static-token-4712');
    cluster.vault.world().tokens.create(Date.now(), { id: token, policies: [roleName], ttl: 3600 });
    cluster.secretFile('token', token);
    await expectRecovery('token');
  });

  it('because a token has reached its maximum TTL, is replaced by a new login before it expires', async () => {
    await until(() => performance.now() - startedAt > 3 * life * 1000, 'several tokens have ended');
    expect(await expiryOf('max-ttl')).toBeGreaterThan(Date.now() / 1000);
    expect(await isUp('max-ttl')).toBe(true);
    expect(errorsOf('max-ttl')).toEqual([]);
  });

  it('failed no request of a login with cached keys, and leaked no secret', async () => {
    await load.end();
    for (const name of Object.keys(by)) {
      expect(load.results(new RegExp(`^${name}$`))).toEqual({ '200 answered': expect.any(Number) });
    }
    expect(load.rate).toBeGreaterThan(50);
    expect(await cluster.leaks(load.seen())).toEqual([]);
  });
});
