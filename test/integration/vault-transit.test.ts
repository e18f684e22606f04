import { createPublicKey, randomBytes, verify } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { z } from 'zod';
import type { VaultConfig } from '../../src/config/schema.ts';
import { describeKey } from '../../src/keys/key.ts';
import { type KeySource, ringIn } from '../../src/keys/key-source.ts';
import type { LoginRef } from '../../src/keys/login-ref.ts';
import type { TransitKey } from '../../src/keys/ring.ts';
import { Secret } from '../../src/secret.ts';
import { describeWhere } from '../support/requires.ts';
import { VaultAdmin } from '../support/stub-vault/admin.ts';
import {
  newestTransitKey,
  RecordingObserver,
  vaultConfig,
  vaultSource,
} from '../support/stub-vault/harness.ts';
import { noRealServer, type RunningVault, vaultTargets } from '../support/stub-vault/real-vault.ts';
import { until } from '../support/until.ts';
import { privateKeyOf } from '../support/vectors.ts';

const baseString = 'POST&https%3A%2F%2Fgateway.example%2Ftransfer&amount%3D1.00';
const described = z.object({ keys: z.record(z.string(), z.object({ public_key: z.string() })) });

for (const { name, open } of vaultTargets(process.env)) {
  describeWhere(open !== undefined, noRealServer)(`keys that do not leave Vault, against ${name}`, () => {
    // A shared server may contain anything, so all names are new.
    const unique = randomBytes(4).toString('hex');
    const [kv, transit, policy] = [`kv-${unique}`, `transit-${unique}`, `countersign-${unique}`];
    const closers: (() => unknown)[] = [];
    let server: RunningVault;
    let admin: VaultAdmin;
    let events: RecordingObserver;

    beforeAll(async () => {
      if (open === undefined) return;
      server = await open();
      admin = new VaultAdmin(server.address, server.rootToken);
      await admin.enable('mounts', kv, { type: 'kv', options: { version: '2' } });
      await admin.enable('mounts', transit, { type: 'transit' });
      const path = {
        [`${kv}/data/gateway/sandbox/*`]: { capabilities: ['read'] },
        [`${transit}/keys/*`]: { capabilities: ['read'] },
        [`${transit}/sign/+/sha2-256`]: { capabilities: ['update'] },
      };
      await admin.policyText(policy, JSON.stringify({ path }));
      const anything = { data: { a: 'b' } };
      await until(
        async () => (await admin.send('POST', `${kv}/data/any`, anything)).status === 200,
        'it is mounted',
      );
    });

    afterAll(async () => {
      if (open === undefined) return;
      await Promise.all(closers.map((close) => close()));
      for (const made of [kv, transit]) await admin.request('DELETE', `sys/mounts/${made}`);
      await admin.request('DELETE', `sys/policies/acl/${policy}`);
      await server.close();
    });

    async function source(
      more: Partial<VaultConfig> = {},
    ): Promise<Required<Pick<KeySource, 'sign'>> & KeySource> {
      events = new RecordingObserver();
      const auth = { method: 'token', token: new Secret(await admin.token({ policies: [policy] })) } as const;
      const limits = { maxInFlight: 32, maxPerSecond: 500 };
      const config = { mount: kv, auth, transit: { mounts: { sandbox: transit }, ...limits }, ...more };
      const opened = vaultSource(vaultConfig(server.address, config), {
        clock: Date.now,
        monotonic: () => performance.now(),
        random: () => 0.5,
        events,
      });
      closers.push(() => opened.stop());
      const { sign } = opened;
      if (sign === undefined) throw new TypeError('it does not sign');
      return { ...opened, sign };
    }

    /** A login with these versions of its secret, and a key of its name in the Transit engine with so many versions. */
    async function newLogin(
      versions: readonly ((name: string) => object)[],
      inTransit = 1,
    ): Promise<LoginRef> {
      const login = `l-${randomBytes(4).toString('hex')}`;
      for (let made = 0; made < inTransit; made += 1)
        await admin.request('POST', `${transit}/keys/${login}${made === 0 ? '' : '/rotate'}`, {
          type: 'rsa-2048',
        });
      for (const fields of versions) await admin.put(`gateway/sandbox/${login}`, fields(login), kv);
      return { environment: 'sandbox', login };
    }

    const version = (number: number) => (login: string) => ({ transit_key: `${login}:${number}` });

    async function publicKey({ login }: LoginRef, number: number) {
      const { data } = await admin.request('GET', `${transit}/keys/${login}`);
      return createPublicKey(described.parse(data).keys[number]?.public_key ?? '');
    }

    /** What keeps the newest key from being used. */
    async function problemOf(keys: KeySource, login: LoginRef): Promise<string> {
      const newest = await newestTransitKey(keys, login);
      return typeof newest === 'string' ? newest : 'none';
    }

    async function newestKey(keys: KeySource, login: LoginRef): Promise<TransitKey> {
      const newest = await newestTransitKey(keys, login);
      if (typeof newest === 'string') throw new Error(newest);
      return newest;
    }

    it('signs with exactly the version that the secret names', async () => {
      const login = await newLogin([version(1)], 2);
      const keys = await source();
      const key = await newestKey(keys, login);
      expect(key).toMatchObject({ name: login.login, keyVersion: 1, mount: transit });
      const signature = await keys.sign(login, key, baseString);
      const verifiedWith = async (number: number) =>
        verify(
          'sha256',
          Buffer.from(baseString),
          await publicKey(login, number),
          Buffer.from(signature, 'base64'),
        );
      expect([await verifiedWith(1), await verifiedWith(2)]).toEqual([true, false]);
      expect(events.signed).toEqual(['ok']);
    });

    it('has a ring of keys in the secret and in the Transit engine, newest first', async () => {
      const pem = privateKeyOf('rsa-2048-pkcs8.pem').export({ type: 'pkcs8', format: 'pem' });
      const login = await newLogin(
        [
          () => ({ private_key: pem, control_key: 'c' }),
          version(1),
          version(2),
          () => ({ private_key: pem }),
        ],
        2,
      );
      const ring = ringIn(await (await source()).read(login)) ?? [];
      const rsa = ring.filter(({ kind }) => kind === 'private_key').map(describeKey);
      expect(rsa.map(({ transitKey, bits }) => [transitKey, bits])).toEqual([
        [undefined, 2048],
        [`${login.login}:2`, 2048],
        [`${login.login}:1`, 2048],
      ]);
      expect(new Set(rsa.map(({ fingerprint }) => fingerprint)).size).toBe(3);
    });

    it.each([
      [
        'a key that does not exist',
        () => ({ transit_key: 'missing:1' }),
        /keys\/missing cannot be read: Vault has no such secret/,
      ],
      ['a version that does not exist', version(7), /has no version 7; its latest is 1$/],
      ['no version', (login: string) => ({ transit_key: login }), /is not NAME:VERSION/],
      ['a path', () => ({ transit_key: '../../sys/raw:1' }), /is not NAME:VERSION/],
      ['a number', () => ({ transit_key: 3 }), /is not NAME:VERSION/],
      ['a private key too', (login: string) => ({ transit_key: `${login}:1`, private_key: 'x' }), /has both/],
    ])('a reference to %s is a problem of this key only', async (_what, fields, problem) => {
      const login = await newLogin([(name) => ({ ...fields(name), control_key: 'c' })]);
      const keys = await source();
      expect(ringIn(await keys.read(login))?.[0]).toMatchObject({ kind: 'control_key', key: {} });
      expect(await problemOf(keys, login)).toMatch(problem);
    });

    it('a key of another type, or of an environment without a mount, is a problem', async () => {
      const login = await newLogin([version(1)], 0);
      await admin.request('POST', `${transit}/keys/${login.login}`, { type: 'ed25519' });
      expect(await problemOf(await source(), login)).toMatch(/is of type ed25519; an RSA key is needed/);
      const elsewhere = await source({ transit: { mounts: {}, maxInFlight: 2, maxPerSecond: 2 } });
      expect(await problemOf(elsewhere, login)).toMatch(/mounts has none for sandbox/);
    });

    it('a version that Vault does not sign with any more concerns only its login', async () => {
      const [login, other] = [await newLogin([version(1)], 2), await newLogin([version(1)])];
      const keys = await source();
      const [key, otherKey] = [await newestKey(keys, login), await newestKey(keys, other)];
      await admin.request('POST', `${transit}/keys/${login.login}/config`, { min_encryption_version: 2 });
      const unusable = { reason: 'key-unusable', outcome: 'not-sent' };
      await expect(keys.sign(login, key, baseString)).rejects.toMatchObject(unusable);
      // Vault responds with 500 to it.
      await expect(keys.sign(other, otherKey, baseString)).resolves.toMatch(/=$/);
      expect(events.signed).toEqual([expect.stringMatching(/^rejected: Vault rejected/), 'ok']);
      expect(await problemOf(await source(), login)).toMatch(
        /no longer signs with version 1: its min_encryption_version is 2/,
      );
    });

    it('a key that was replaced by another of its name is noticed before anything is sent', async () => {
      const login = await newLogin([version(1)]);
      const keys = await source();
      const key = await newestKey(keys, login);
      await admin.request('POST', `${transit}/keys/${login.login}/config`, { deletion_allowed: true });
      await admin.request('DELETE', `${transit}/keys/${login.login}`);
      await expect(keys.sign(login, key, baseString)).rejects.toMatchObject({ reason: 'key-unusable' });
      await admin.request('POST', `${transit}/keys/${login.login}`, { type: 'rsa-2048' });
      await expect(keys.sign(login, key, baseString)).rejects.toMatchObject({ reason: 'key-unusable' });
      expect(events.signed).toEqual([expect.stringMatching(/^rejected/), expect.stringMatching(/^invalid/)]);
      const renewed = await newestKey(keys, login);
      await expect(keys.sign(login, renewed, baseString)).resolves.toMatch(/=$/);
    });

    it('a policy without the right to sign fails as unavailable, and one without the right to read as a problem', async () => {
      const login = await newLogin([version(1)]);
      const rules = (of: string[]) => ({
        path: Object.fromEntries([
          [`${kv}/data/gateway/sandbox/*`, { capabilities: ['read'] }],
          ...of.map((what) => [`${transit}/${what}/*`, { capabilities: ['read', 'update'] }]),
        ]),
      });
      await admin.policyText(`${policy}-r`, JSON.stringify(rules(['keys'])));
      await admin.policyText(`${policy}-s`, JSON.stringify(rules(['sign'])));
      const withPolicy = async (suffix: string) => {
        const token = await admin.token({ policies: [`${policy}-${suffix}`] });
        return source({ auth: { method: 'token', token: new Secret(token) } });
      };
      const reading = await withPolicy('r');
      const key = await newestKey(reading, login);
      await expect(reading.sign(login, key, baseString)).rejects.toMatchObject({
        reason: 'signing-unavailable',
        headers: { 'Retry-After': '5' },
      });
      expect(events.signed).toEqual([expect.stringMatching(/^denied: Vault denied permission/)]);
      expect(await problemOf(await withPolicy('s'), login)).toMatch(
        /cannot be read: Vault denied permission \(HTTP 403\)/,
      );
      for (const suffix of ['r', 's']) await admin.request('DELETE', `sys/policies/acl/${policy}-${suffix}`);
    });
  });
}
