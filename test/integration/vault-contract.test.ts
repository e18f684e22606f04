import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { VaultConfig } from '../../src/config/schema.ts';
import { ringIn } from '../../src/keys/key-source.ts';
import { usableIn } from '../../src/keys/ring.ts';
import { revealFields } from '../../src/keys/vault/client.ts';
import { connectVault } from '../../src/keys/vault/source.ts';
import { Secret } from '../../src/secret.ts';
import { bound, KubernetesApi, serviceAccountToken } from '../support/kubernetes-api.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { describeVaults } from '../support/stub-vault/describe-vaults.ts';
import {
  acme,
  approleMount,
  controlKeys,
  problemOf,
  roleName,
  VaultTestEnvironment,
} from '../support/stub-vault/harness.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { until } from '../support/until.ts';

describeVaults('keys in Vault', (server) => {
  const minute = 60_000;
  const elsewhere = { path: 'elsewhere/{environment}/{login}' };
  let setup: VaultTestEnvironment;
  let { admin } = server;
  let names = 0;

  beforeEach(async () => {
    ({ admin } = server);
    setup = await new VaultTestEnvironment().open(admin);
  });
  afterEach(() => setup.close());

  const newName = (): string => {
    names += 1;
    return `new-${names}`;
  };

  /** By AppRole unless given. */
  const loggingIn = async (more: Partial<VaultConfig>): Promise<Partial<VaultConfig>> => ({
    ...more,
    auth: more.auth ?? (await setup.appRole()),
  });
  const source = async (more: Partial<VaultConfig> = {}) => setup.source(await loggingIn(more));
  const connect = async (more: Partial<VaultConfig> = {}) =>
    setup.closeAtEnd(connectVault(setup.config(await loggingIn(more)), setup.options));

  /** A login by a new role with these settings. */
  async function roleAuth(settings: object, role = newName()): Promise<VaultConfig['auth']> {
    const roleId = await admin.role(approleMount, role, { token_policies: [roleName], ...settings });
    const secretIdFile = setup.folder.file('secret-id', await admin.secretId(approleMount, role));
    return { method: 'approle', mount: approleMount, roleId, secretIdFile };
  }

  const tokenAuth = (token: string): VaultConfig['auth'] => ({ method: 'token', token: new Secret(token) });

  async function newLogin(...keys: readonly string[]) {
    const address = { environment: 'sandbox', login: newName() };
    const path = `gateway/sandbox/${address.login}`;
    for (const control_key of keys) await admin.put(path, { control_key });
    return { address, path };
  }

  it('finds no keys in a current version that is deleted, until it is undeleted, or destroyed, and none of an unknown login', async () => {
    const { address, path } = await newLogin('first');
    const keys = await source();
    await admin.deleteVersions(path, [1]);
    expect(await keys.read(address)).toBe('deleted');
    await admin.request('POST', `secret/undelete/${path}`, { versions: [1] });
    expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
    await admin.destroy(path, [1]);
    expect(await keys.read(address)).toBe('deleted');
    expect(await keys.read((await newLogin()).address)).toBe('not-found');
  });

  it('finds the older version once the newest is deleted, until that is deleted too', async () => {
    const { address, path } = await newLogin('first', 'second');
    const keys = await source();
    expect(controlKeys(await keys.read(address))).toEqual(['2:second', '1:first']);
    await admin.deleteVersions(path, [2]);
    expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
    await admin.deleteVersions(path, [1]);
    expect(await keys.read(address)).toBe('deleted');
  });

  it('does not take a secret whose metadata was deleted for a deleted one, until a version is', async () => {
    const { address, path } = await newLogin('first');
    const keys = await source();
    const known = ringIn(await keys.read(address)) ?? [];
    await admin.request('DELETE', `secret/metadata/${path}`);
    expect(await keys.read(address, known)).toBe('not-found');
    await admin.put(path, { stopped: 'yes' });
    expect(await keys.read(address, known)).toMatchObject({ gone: [{ version: 1 }] });
    await admin.deleteVersions(path, [1]);
    expect(await keys.read(address, known)).toBe('deleted');
  });

  it('reports a known key that max_versions has removed as gone, not as deleted', async () => {
    const { address, path } = await newLogin();
    await admin.request('POST', `secret/metadata/${path}`, { max_versions: 1 });
    await admin.put(path, { control_key: 'first' });
    const keys = await source();
    const known = usableIn(ringIn(await keys.read(address)) ?? []);
    await admin.put(path, { control_key: 'second' });
    const reading = await keys.read(address, known, known);
    expect(controlKeys(reading)).toEqual(['2:second']);
    expect(reading).toMatchObject({ gone: [{ version: 1 }] });
  });

  it('keeps recently superseded versions, newest first, without deleted ones', async () => {
    const { address, path } = await newLogin('first', 'second', 'third', 'fourth');
    await admin.deleteVersions(path, [2]);
    const ring = ringIn(await (await source()).read(address));
    expect(controlKeys(ring)).toEqual(['4:fourth', '3:third', '1:first']);
    expect(Math.abs((ring?.[0]?.createdAt?.getTime() ?? 0) - Date.now())).toBeLessThan(60_000);
    expect(ring?.[0]?.supersededAt).toBeUndefined();
    expect(ring?.[1]?.supersededAt).toEqual(ring?.[0]?.createdAt);
  });

  it.each<[what: string, kind: string, more: () => Partial<VaultConfig> | Promise<Partial<VaultConfig>>]>([
    ['a wrong secret ID', 'bad-credentials', async () => ({ auth: await setup.appRole('wrong') })],
    ['a wrong token', 'bad-credentials', () => ({ auth: tokenAuth('no-such-token') })],
    ['a path without permission', 'denied', () => elsewhere],
    ['a missing mount', 'no-route', () => ({ auth: tokenAuth(rootToken), mount: 'absent' })],
    [
      'a role whose tokens have a limited number of uses',
      'limited-uses',
      async () => ({ auth: await roleAuth({ token_num_uses: 5 }) }),
    ],
  ])('reports %s as %s, and leaves no token behind', async (_what, kind, more) => {
    const keys = await source(await more());
    const before = await admin.countTokens();
    expect(await problemOf(keys.read(acme))).toBe(kind);
    await keys.stop();
    expect(await admin.countTokens()).toBe(before);
  });

  it('reports a configured token with a limited number of uses, and does not revoke it', async () => {
    const token = await admin.token({ policies: [roleName], num_uses: 5 });
    const before = await admin.countTokens();
    expect(await problemOf((await source({ auth: tokenAuth(token) })).read(acme))).toBe('limited-uses');
    expect(await admin.countTokens()).toBe(before);
  });

  it('reports a mount with KV version 1, not missing secrets', async () => {
    await admin.enable('mounts', 'kv1', { type: 'kv', options: { version: '1' } });
    const version1 = { auth: tokenAuth(rootToken), mount: 'kv1' };
    expect(await problemOf((await source(version1)).read(acme))).toBe('kv-version-1');
    expect(await problemOf((await connect(version1)).kv.history(acme))).toBe('kv-version-1');
  });

  it.each([
    ['looks itself up', { token_no_default_policy: false }, 1],
    ['may not look itself up', { token_no_default_policy: true }, 13],
  ])('leaves no tokens behind in an hour of denied reads, where a token %s', async (_name, role, logins) => {
    const { address } = await newLogin('first');
    const path = {
      'secret/data/gateway/*': { capabilities: ['read'] },
      'auth/token/revoke-self': { capabilities: ['update'] },
    };
    await admin.policyText('denied', JSON.stringify({ path }));
    const auth = await roleAuth({ token_policies: ['denied'], token_ttl: '1h', ...role });
    const before = await admin.countTokens();
    const vault = await connect({ auth });
    for (let waited = 0; waited < 58; waited += 0.5) {
      await problemOf(vault.kv.history(address));
      setup.clock.advance(minute / 2);
    }
    expect(setup.observed.expiries).toHaveLength(logins);
    expect(await admin.countTokens()).toBe(before + 1);
    // On a busy machine, this may take longer than stopping may.
    await vault.tokens.stop();
    await until(async () => (await admin.countTokens()) === before, 'the token is revoked');
  });

  it.each([
    ['service', { token_ttl: '1h' }, 40 * minute],
    ['periodic', { token_period: '10m' }, 400_000],
    ['batch', { token_ttl: '1h', token_type: 'batch' }, 40 * minute],
  ])('renews a %s token, or logs in again, at two thirds of the lease', async (type, role, wakesIn) => {
    const { address } = await newLogin('first');
    const keys = await source({ auth: await roleAuth(role) });
    const before = await admin.countTokens();
    keys.start();
    for (let leases = 1; leases < 5; leases += 1) {
      await until(() => setup.observed.expiries.length === leases, 'it has a lease');
      expect(setup.clock.nextTimer).toBe(wakesIn);
      setup.clock.advance(wakesIn);
    }
    expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
    // Vault stores no batch tokens.
    expect(await admin.countTokens()).toBe(type === 'batch' ? before : before + 1);
    await keys.stop();
    expect(setup.observed.problems).toEqual([]);
  });

  it('uses a single-use secret ID once, and a new one at once if the token was revoked', async () => {
    const { address } = await newLogin('first');
    const keys = await source({ auth: await roleAuth({ secret_id_num_uses: 1 }, 'once') });
    expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
    await admin.revokeAll(approleMount);
    setup.clock.advance(6000);
    expect(await problemOf(keys.read(address))).toBe('bad-credentials');
    setup.clock.advance(6000);
    expect(await problemOf(keys.read(address))).toBe('backing-off');
    setup.folder.file('secret-id', await admin.secretId(approleMount, 'once'));
    expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
    // The first token, its end when it was found to be revoked, and the second token.
    expect(setup.observed.expiries).toHaveLength(3);
  });

  if (server.isReal)
    it('logs in by a service account, which is rejected while the API server of Kubernetes is away', async () => {
      const { address } = await newLogin('first');
      const api = setup.closeAtEnd(new KubernetesApi());
      await api.listen();
      await admin.enable('auth', 'kubernetes', { type: 'kubernetes' });
      const ca = new Ca(setup.folder.path, 'unused').cert.toString();
      const config = { kubernetes_host: api.address, kubernetes_ca_cert: ca, disable_local_ca_jwt: true };
      await admin.request('POST', 'auth/kubernetes/config', config);
      const role = { ...bound, token_policies: [roleName], token_ttl: 3600 };
      await admin.request('POST', `auth/kubernetes/role/${roleName}`, role);
      const jwtFile = setup.folder.file('jwt', serviceAccountToken());
      const keys = await source({
        auth: { method: 'kubernetes', mount: 'kubernetes', role: roleName, jwtFile },
      });
      expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
      await api.close();
      await admin.revokeAll('kubernetes');
      setup.clock.advance(6000);
      expect(await problemOf(keys.read(address))).toBe('bad-credentials');
      await api.listen();
      setup.clock.advance(6000);
      expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
    });

  it('keeps a token that does not expire', async () => {
    (await source({ auth: tokenAuth(rootToken) })).start();
    await until(() => setup.observed.expiries.length === 1, 'it has looked the token up');
    expect(setup.observed.expiries).toEqual([undefined]);
    expect(setup.clock.nextTimer).toBeUndefined();
  });

  describe('for the platform team', () => {
    it('knows which path its policy does not permit to read, whatever characters a login has', async () => {
      const keys = await connect();
      for (const login of ['acme', 'a.b@c~d'])
        expect(await keys.kv.deniedPath({ environment: 'sandbox', login })).toBeUndefined();
      const other = await connect(elsewhere);
      const login = { environment: 'sandbox', login: 'a@b' };
      expect(await other.kv.deniedPath(login)).toBe('secret/data/elsewhere/sandbox/a@b');
    });

    it('writes with check-and-set and keeps the other fields', async () => {
      const { address, path } = await newLogin();
      await admin.put(path, { control_key: 'first', note: 'keep me' });
      const keys = await connect();
      expect(await keys.kv.extend(address, { control_key: new Secret('second') }, 1)).toBe(2);
      const written = await keys.readVersion(address, 2);
      expect(controlKeys(written?.keys)).toEqual(['2:second']);
      expect(revealFields(written?.fields ?? {})).toEqual({ control_key: 'second', note: 'keep me' });
    });

    it('does not overwrite a concurrent change', async () => {
      const { address } = await newLogin('first', 'second');
      const keys = await connect();
      expect(await problemOf(keys.kv.extend(address, { control_key: 'x' }, 1))).toBe('cas-mismatch');
      expect(await problemOf(keys.kv.extend(address, { control_key: 'x' }, 0))).toBe('cas-mismatch');
      expect((await keys.kv.history(address))?.current).toBe(2);
    });

    it('writes the first version of a login, and again after the newest was deleted', async () => {
      const { address, path } = await newLogin();
      const keys = await connect();
      expect(await keys.kv.extend(address, { control_key: 'first' }, 0)).toBe(1);
      await admin.deleteVersions(path, [1]);
      expect(await keys.kv.extend(address, { control_key: 'second' }, 1)).toBe(2);
      expect(controlKeys((await keys.readVersion(address, 2))?.keys)).toEqual(['2:second']);
    });

    it('distinguishes deleted, destroyed and current versions', async () => {
      const { address, path } = await newLogin('first', 'second', 'third');
      await admin.destroy(path, [1]);
      await admin.deleteVersions(path, [2]);
      const keys = await connect();
      const history = await keys.kv.history(address);
      expect(history).toMatchObject({ current: 3, maxVersions: 0 });
      expect(history?.versions).toMatchObject([
        { version: 3, deletedAt: undefined, destroyed: false },
        { version: 2, deletedAt: expect.any(Date), destroyed: false },
        { version: 1, deletedAt: undefined, destroyed: true },
      ]);
      expect(await keys.readVersion(address, 2)).toMatchObject({ version: 2, keys: [] });
      expect(await keys.readVersion(address, 1)).toMatchObject({ version: 1, keys: [] });
      expect(await keys.kv.history((await newLogin()).address)).toBeUndefined();
      for (const gone of [1, 2]) expect((await keys.readVersion(address, gone))?.fields).toBeUndefined();
      expect(await keys.readVersion(address, 9)).toBeUndefined();
    });

    it('lists the logins of an environment, whatever characters they have', async () => {
      const environment = newName();
      const logins = ['acme', 'a.b', 'a~b', 'a@b-c_d', '..x', '-'];
      const pathOf = (login: string) => `gateway/${environment}/${encodeURIComponent(login)}`;
      for (const login of logins) await admin.put(pathOf(login), { control_key: login });
      const keys = await connect();
      expect([...(await keys.kv.logins(environment))].sort()).toEqual([...logins].sort());
      const reader = await source();
      for (const login of logins) {
        expect(controlKeys(await reader.read({ environment, login }))).toEqual([`1:${login}`]);
      }
      expect(await keys.kv.logins('unknown')).toEqual([]);
    });
  });
});
