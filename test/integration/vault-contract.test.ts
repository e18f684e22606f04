import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { VaultConfig } from '../../src/config/schema.ts';
import { ringIn } from '../../src/keys/key-source.ts';
import { revealFields } from '../../src/keys/vault/client.ts';
import { connectVault, type VaultOptions } from '../../src/keys/vault/source.ts';
import { reveal, Secret } from '../../src/secret.ts';
import { Folder } from '../support/folder.ts';
import { describeWhere } from '../support/requires.ts';
import { VaultAdmin } from '../support/stub-vault/admin.ts';
import {
  acme,
  controlKeys,
  problemOf,
  RecordingObserver,
  vaultConfig,
  vaultSource,
} from '../support/stub-vault/harness.ts';
import { noRealServer, type RunningVault, vaultTargets } from '../support/stub-vault/real-vault.ts';
import { until } from '../support/until.ts';

for (const { name, open } of vaultTargets(process.env)) {
  describeWhere(open !== undefined, noRealServer)(`keys in Vault, against ${name}`, () => {
    // A shared server may contain anything, so all names are new.
    const unique = randomBytes(4).toString('hex');
    const mount = `kv-${unique}`;
    const appRole = `approle-${unique}`;
    const policy = `countersign-${unique}`;
    const closers: (() => unknown)[] = [];
    let folder: Folder;
    let server: RunningVault;
    let admin: VaultAdmin;
    let roleId: string;

    beforeAll(async () => {
      if (open === undefined) return;
      folder = new Folder();
      server = await open();
      admin = new VaultAdmin(server.address, server.rootToken);
      await admin.enable('mounts', mount, { type: 'kv', options: { version: '2' } });
      await admin.enable('auth', appRole, { type: 'approle' });
      await admin.policy(policy, mount, 'gateway');
      roleId = await admin.role(appRole, 'countersign', { token_policies: [policy], token_ttl: '1h' });
    });

    afterAll(async () => {
      if (open === undefined) return;
      await Promise.all(closers.map((close) => close()));
      for (const made of [`mounts/${mount}`, `mounts/kv1-${unique}`, `auth/${appRole}`])
        await admin.request('DELETE', `sys/${made}`);
      for (const made of [policy, `${policy}-1`, `${policy}-d`])
        await admin.request('DELETE', `sys/policies/acl/${made}`);
      folder.remove();
      await server?.close();
    });

    /** Timers run only through {@link fire}. */
    class TestOptions implements VaultOptions {
      readonly events = new RecordingObserver();
      readonly clock = Date.now;
      /** Milliseconds by which its clock is ahead. */
      ahead = 0;
      readonly monotonic = () => performance.now() + this.ahead;
      readonly random = () => 0.5;
      #run: (() => void) | undefined;
      wakesIn: number | undefined;

      readonly setTimer = (run: () => void, milliseconds: number) => {
        this.#run = run;
        this.wakesIn = milliseconds;
        return () => {
          this.#run = undefined;
        };
      };

      fire(): void {
        this.#run?.();
      }
    }

    const approle = (id: string, secretIdFile: string) =>
      ({ method: 'approle', mount: appRole, roleId: id, secretIdFile }) as const;

    /** A login by a new role with these settings. */
    async function roleAuth(name: string, settings: object) {
      const id = await admin.role(appRole, name, { token_policies: [policy], ...settings });
      return approle(id, folder.file(`secret-id-${name}`, await admin.secretId(appRole, name)));
    }

    async function appRoleAuth(secretId?: string): Promise<VaultConfig['auth']> {
      const id = secretId ?? (await admin.secretId(appRole, 'countersign'));
      const secretIdFile = folder.file(`secret-id-${randomBytes(4).toString('hex')}`, id);
      return approle(roleId, secretIdFile);
    }

    function source(auth: VaultConfig['auth'], options = new TestOptions(), more: Partial<VaultConfig> = {}) {
      const opened = vaultSource(vaultConfig(server.address, { mount, auth, ...more }), options);
      closers.push(() => opened.stop());
      return opened;
    }

    /** A new mount of a real server rejects writes for a moment. */
    async function untilWritten(write: () => Promise<void>): Promise<void> {
      await until(() =>
        write().then(
          () => true,
          () => false,
        ),
      );
    }

    async function newLogin(...keys: readonly string[]) {
      const address = { environment: 'sandbox', login: `l-${randomBytes(4).toString('hex')}` };
      const path = `gateway/sandbox/${address.login}`;
      for (const control_key of keys) await admin.put(path, { control_key }, mount);
      return { address, path };
    }

    it('finds no keys in a current version that is deleted, until it is undeleted, or destroyed, and none of an unknown login', async () => {
      const { address, path } = await newLogin('first');
      const keys = source(await appRoleAuth());
      await admin.deleteVersions(path, [1], mount);
      expect(await keys.read(address)).toBe('deleted');
      await admin.request('POST', `${mount}/undelete/${path}`, { versions: [1] });
      expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
      await admin.destroy(path, [1], mount);
      expect(await keys.read(address)).toBe('deleted');
      expect(await keys.read((await newLogin()).address)).toBe('not-found');
    });

    it('finds the older version once the newest is deleted, until that is deleted too', async () => {
      const { address, path } = await newLogin('first', 'second');
      const keys = source(await appRoleAuth());
      expect(controlKeys(await keys.read(address))).toEqual(['2:second', '1:first']);
      await admin.deleteVersions(path, [2], mount);
      expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
      await admin.deleteVersions(path, [1], mount);
      expect(await keys.read(address)).toBe('deleted');
    });

    it('does not take a secret whose metadata was deleted for a deleted one, until a version is', async () => {
      const { address, path } = await newLogin('first');
      const keys = source(await appRoleAuth());
      const known = ringIn(await keys.read(address)) ?? [];
      await admin.request('DELETE', `${mount}/metadata/${path}`);
      expect(await keys.read(address, known)).toBe('not-found');
      await admin.put(path, { stopped: 'yes' }, mount);
      expect(await keys.read(address, known)).toMatchObject({ gone: [{ version: 1 }] });
      await admin.deleteVersions(path, [1], mount);
      expect(await keys.read(address, known)).toBe('deleted');
    });

    it('does not take a mount that was re-created for deleted logins', async () => {
      const { address } = await newLogin('first');
      const recreated = `kv-${unique}-new`;
      await admin.enable('mounts', recreated, { type: 'kv', options: { version: '2' } });
      closers.push(() => admin.request('DELETE', `sys/mounts/${recreated}`));
      await admin.policy(`${policy}-new`, recreated, 'gateway');
      closers.push(() => admin.request('DELETE', `sys/policies/acl/${policy}-new`));
      const token = await admin.token({ policies: [`${policy}-new`], ttl: '1h' });
      const keys = source({ method: 'token', token: new Secret(token) }, new TestOptions(), {
        mount: recreated,
      });
      const path = `gateway/sandbox/${address.login}`;
      await untilWritten(() => admin.put(path, { control_key: 'first' }, recreated));
      expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
      await admin.request('DELETE', `sys/mounts/${recreated}`);
      await admin.enable('mounts', recreated, { type: 'kv', options: { version: '2' } });
      await untilWritten(() => admin.put('gateway/sandbox/another', { control_key: 'x' }, recreated));
      expect(await keys.read(address)).toBe('not-found');
    });

    it('reports a known key that max_versions has removed as gone, not as deleted', async () => {
      const { address, path } = await newLogin();
      await admin.request('POST', `${mount}/metadata/${path}`, { max_versions: 1 });
      await admin.put(path, { control_key: 'first' }, mount);
      const keys = source(await appRoleAuth());
      const [first] = ringIn(await keys.read(address)) ?? [];
      await admin.put(path, { control_key: 'second' }, mount);
      const known = first === undefined ? [] : [{ ...first, isAccepted: true as const }];
      const reading = await keys.read(address, known);
      expect(controlKeys(reading)).toEqual(['2:second']);
      expect(reading).toMatchObject({ gone: [{ version: 1 }] });
    });

    it('keeps recently superseded versions, newest first, without deleted ones', async () => {
      const { address, path } = await newLogin('first', 'second', 'third', 'fourth');
      await admin.deleteVersions(path, [2], mount);
      const ring = ringIn(await source(await appRoleAuth()).read(address));
      expect(controlKeys(ring)).toEqual(['4:fourth', '3:third', '1:first']);
      expect(Math.abs((ring?.[0]?.createdAt?.getTime() ?? 0) - Date.now())).toBeLessThan(60_000);
      expect(ring?.[0]?.supersededAt).toBeUndefined();
      expect(ring?.[1]?.supersededAt).toEqual(ring?.[0]?.createdAt);
    });

    it('reports a wrong secret ID or token as bad credentials', async () => {
      const wrong = { method: 'token', token: new Secret('no-such-token') } as const;
      for (const auth of [await appRoleAuth('wrong'), wrong])
        expect(await problemOf(source(auth).read(acme))).toBe('bad-credentials');
    });

    it('refuses tokens with a limited number of uses, of a role and configured', async () => {
      const { address } = await newLogin('first');
      const auth = await roleAuth('limited', { token_num_uses: 5 });
      const before = await admin.countTokens();
      expect(await problemOf(source(auth).read(address))).toBe('limited-uses');
      expect(await admin.countTokens()).toBe(before);
      const token = new Secret(await admin.token({ policies: [policy], num_uses: 5 }));
      expect(await problemOf(source({ method: 'token', token }).read(address))).toBe('limited-uses');
    });

    it('reads a new token from the file after the old one was revoked', async () => {
      const { address } = await newLogin('first');
      const old = await admin.token({ policies: [policy], ttl: '1h' });
      const tokenFile = folder.file('token', old);
      const options = new TestOptions();
      const keys = source({ method: 'token', tokenFile }, options);
      await keys.read(address);
      await admin.revoke(old);
      folder.file('token', await admin.token({ policies: [policy], ttl: '1h' }));
      options.ahead = 60_000;
      expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
    });

    it('reports a path without permission as denied, not as missing', async () => {
      const keys = source(await appRoleAuth(), new TestOptions(), {
        path: 'elsewhere/{environment}/{login}',
      });
      expect(await problemOf(keys.read(acme))).toBe('denied');
    });

    it('reports a missing mount, not a missing secret', async () => {
      const auth: VaultConfig['auth'] = { method: 'token', token: new Secret(server.rootToken) };
      const keys = source(auth, new TestOptions(), { mount: `absent-${unique}` });
      expect(await problemOf(keys.read(acme))).toBe('no-route');
    });

    it('logs in again at once if its token was revoked', async () => {
      const { address } = await newLogin('first');
      const options = new TestOptions();
      const keys = source(await appRoleAuth(), options);
      for (let logins = 1; logins < 4; logins += 1) {
        expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
        // The expiry of a revoked token is in the past.
        const ends = options.events.expiries.filter((at = 0) => at > Date.now() / 1000 + 60);
        expect(ends).toHaveLength(logins);
        await admin.request('POST', `sys/leases/revoke-prefix/auth/${appRole}/login`);
        options.ahead += 6000;
      }
    });

    it('does not log in again because of a missing permission', async () => {
      const options = new TestOptions();
      const keys = source(await appRoleAuth(), options, { path: 'elsewhere/{environment}/{login}' });
      for (let times = 0; times < 3; times += 1) {
        options.ahead += 120_000;
        expect(await problemOf(keys.read(acme))).toBe('denied');
      }
      expect(options.events.expiries).toHaveLength(1);
    });

    it.each([
      ['looks itself up', { token_no_default_policy: false }, 1],
      ['may not look itself up', { token_no_default_policy: true }, 13],
    ])(
      'leaves no tokens behind in an hour of denied reads, where a token %s',
      async (_name, role, logins) => {
        const { address } = await newLogin('first');
        const path = {
          [`${mount}/data/gateway/*`]: { capabilities: ['read'] },
          'auth/token/revoke-self': { capabilities: ['update'] },
        };
        await admin.request('POST', `sys/policies/acl/${policy}-d`, { policy: JSON.stringify({ path }) });
        const auth = await roleAuth('denied', { token_policies: [`${policy}-d`], ...role });
        const options = new TestOptions();
        const before = await admin.countTokens();
        const vault = connectVault(vaultConfig(server.address, { mount, auth }), options);
        for (; options.ahead < 3_500_000; options.ahead += 30_000) await problemOf(vault.kv.history(address));
        expect(options.events.expiries).toHaveLength(logins);
        expect(await admin.countTokens()).toBe(before + 1);
        // On a busy machine, this may take longer than stopping may.
        await vault.tokens.stop();
        await until(async () => (await admin.countTokens()) === before, 'the token is revoked');
        await vault.close();
      },
    );

    it.each([
      ['service', { token_ttl: '1h' }, 2_400_000],
      ['periodic', { token_period: '10m' }, 400_000],
      ['batch', { token_ttl: '1h', token_type: 'batch' }, 2_400_000],
    ])('renews a %s token, or logs in again, at two thirds of the lease', async (type, role, wakesIn) => {
      const { address } = await newLogin('first');
      const options = new TestOptions();
      const keys = source(await roleAuth(type, role), options);
      const before = await admin.countTokens();
      keys.start();
      for (let leases = 1; leases < 5; leases += 1) {
        await until(() => options.events.expiries.length === leases, 'it has a lease');
        expect(options.wakesIn).toBe(wakesIn);
        options.fire();
      }
      expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
      // Vault stores no batch tokens.
      expect(await admin.countTokens()).toBe(type === 'batch' ? before : before + 1);
      await keys.stop();
      expect(options.events.problems).toEqual([]);
    });

    it('uses a single-use secret ID once, and a new one at once if the token was revoked', async () => {
      const { address } = await newLogin('first');
      const options = new TestOptions();
      const keys = source(await roleAuth('once', { secret_id_num_uses: 1 }), options);
      expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
      await admin.request('POST', `sys/leases/revoke-prefix/auth/${appRole}/login`);
      options.ahead += 6000;
      expect(await problemOf(keys.read(address))).toBe('bad-credentials');
      options.ahead += 6000;
      expect(await problemOf(keys.read(address))).toBe('backing-off');
      folder.file('secret-id-once', await admin.secretId(appRole, 'once'));
      expect(controlKeys(await keys.read(address))).toEqual(['1:first']);
      // The first token, its end when it was found to be revoked, and the second token.
      expect(options.events.expiries).toHaveLength(3);
    });

    it('revokes its token when it stops', async () => {
      const config = vaultConfig(server.address, { mount, auth: await appRoleAuth() });
      const vault = connectVault(config, new TestOptions());
      const token = await vault.tokens.withToken((given) => Promise.resolve(reveal(given)));
      const lookUp = () => admin.request('POST', 'auth/token/lookup', { token });
      expect((await lookUp()).data).toMatchObject({ type: 'service' });
      await vault.close();
      await expect(lookUp()).rejects.toThrow('403');
    });

    it('reports a mount with KV version 1, not missing secrets', async () => {
      const version1 = `kv1-${unique}`;
      await admin.enable('mounts', version1, { type: 'kv', options: { version: '1' } });
      await admin.policy(`${policy}-1`, version1, 'gateway');
      const token = new Secret(await admin.token({ policies: [`${policy}-1`], ttl: '1h' }));
      const auth: VaultConfig['auth'] = { method: 'token', token };
      const more = { mount: version1 };
      expect(await problemOf(source(auth, new TestOptions(), more).read(acme))).toBe('kv-version-1');
      const opened = connectVault(vaultConfig(server.address, { auth, ...more }), new TestOptions());
      closers.push(() => opened.close());
      expect(await problemOf(opened.kv.history(acme))).toBe('kv-version-1');
    });

    async function started(token: string): Promise<TestOptions> {
      const options = new TestOptions();
      source({ method: 'token', token: new Secret(token) }, options).start();
      await until(() => options.events.expiries.length === 1, 'it has looked the token up');
      return options;
    }

    it('knows when a configured token expires', async () => {
      const token = await admin.token({ policies: [policy], ttl: '10m', renewable: false });
      const options = await started(token);
      const secondsLeft = (options.events.expiries[0] ?? 0) - Date.now() / 1000;
      expect(secondsLeft).toBeGreaterThan(570);
      expect(secondsLeft).toBeLessThanOrEqual(600);
      expect(options.events.problems).toEqual([expect.stringContaining('replace it')]);
    });

    it('keeps a token that does not expire', async () => {
      const options = await started(server.rootToken);
      expect(options.events.expiries).toEqual([undefined]);
      expect(options.wakesIn).toBeUndefined();
    });

    describe('for the platform team', () => {
      async function store(more: Partial<VaultConfig> = {}) {
        const config = vaultConfig(server.address, { mount, auth: await appRoleAuth(), ...more });
        const opened = connectVault(config, new TestOptions());
        closers.push(() => opened.close());
        return opened;
      }

      it('knows which path its policy does not permit to read, whatever characters a login has', async () => {
        const keys = await store();
        for (const login of ['acme', 'a.b@c~d'])
          expect(await keys.kv.deniedPath({ environment: 'sandbox', login })).toBeUndefined();
        const elsewhere = await store({ path: 'elsewhere/{environment}/{login}' });
        const login = { environment: 'sandbox', login: 'a@b' };
        expect(await elsewhere.kv.deniedPath(login)).toBe(`${mount}/data/elsewhere/sandbox/a@b`);
      });

      it('writes with check-and-set and keeps the other fields', async () => {
        const { address, path } = await newLogin();
        await admin.put(path, { control_key: 'first', note: 'keep me' }, mount);
        const keys = await store();
        expect(await keys.kv.extend(address, { control_key: new Secret('second') }, 1)).toBe(2);
        const written = await keys.readVersion(address, 2);
        expect(controlKeys(written?.keys)).toEqual(['2:second']);
        expect(revealFields(written?.fields ?? {})).toEqual({ control_key: 'second', note: 'keep me' });
      });

      it('does not overwrite a concurrent change', async () => {
        const { address } = await newLogin('first', 'second');
        const keys = await store();
        expect(await problemOf(keys.kv.extend(address, { control_key: 'x' }, 1))).toBe('cas-mismatch');
        expect(await problemOf(keys.kv.extend(address, { control_key: 'x' }, 0))).toBe('cas-mismatch');
        expect((await keys.kv.history(address))?.current).toBe(2);
      });

      it('writes the first version of a login, and again after the newest was deleted', async () => {
        const { address, path } = await newLogin();
        const keys = await store();
        expect(await keys.kv.extend(address, { control_key: 'first' }, 0)).toBe(1);
        await admin.deleteVersions(path, [1], mount);
        expect(await keys.kv.extend(address, { control_key: 'second' }, 1)).toBe(2);
        expect(controlKeys((await keys.readVersion(address, 2))?.keys)).toEqual(['2:second']);
      });

      it('distinguishes deleted, destroyed and current versions', async () => {
        const { address, path } = await newLogin('first', 'second', 'third');
        await admin.destroy(path, [1], mount);
        await admin.deleteVersions(path, [2], mount);
        const keys = await store();
        const history = await keys.kv.history(address);
        expect(history?.current).toBe(3);
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
        const environment = `e-${randomBytes(4).toString('hex')}`;
        const logins = ['acme', 'a.b', 'a~b', 'a@b-c_d', '..x', '-'];
        const pathOf = (login: string) => `gateway/${environment}/${encodeURIComponent(login)}`;
        for (const login of logins) await admin.put(pathOf(login), { control_key: login }, mount);
        const keys = await store();
        expect([...(await keys.kv.logins(environment))].sort()).toEqual([...logins].sort());
        const reader = source(await appRoleAuth());
        for (const login of logins) {
          expect(controlKeys(await reader.read({ environment, login }))).toEqual([`1:${login}`]);
        }
        expect(await keys.kv.logins('unknown')).toEqual([]);
      });
    });
  });
}
