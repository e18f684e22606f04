import { createPublicKey, verify } from 'node:crypto';
import { afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { z } from 'zod';
import type { VaultConfig } from '../../src/config/schema.ts';
import { describeKey } from '../../src/keys/key.ts';
import { type KeySource, ringIn } from '../../src/keys/key-source.ts';
import type { LoginRef } from '../../src/keys/login-ref.ts';
import type { TransitKey } from '../../src/keys/ring.ts';
import { Secret } from '../../src/secret.ts';
import { describeVaults } from '../support/stub-vault/describe-vaults.ts';
import { newestTransitKey, roleName, VaultTestEnvironment } from '../support/stub-vault/harness.ts';
import { privateKeyOf } from '../support/vectors.ts';

const baseString = 'POST&https%3A%2F%2Fgateway.example%2Ftransfer&amount%3D1.00';
const described = z.object({ keys: z.record(z.string(), z.object({ public_key: z.string() })) });

describeVaults('keys that do not leave Vault', (server) => {
  let setup: VaultTestEnvironment;
  let { admin } = server;
  let logins = 0;

  beforeAll(async () => {
    ({ admin } = server);
    await admin.enable('mounts', 'transit', { type: 'transit' });
  });
  beforeEach(async () => {
    setup = await new VaultTestEnvironment().open(admin);
  });
  afterEach(() => setup.close());

  async function source(more: Partial<VaultConfig> = {}) {
    const token = new Secret(await admin.token({ policies: [roleName] }));
    const transit = { mounts: { sandbox: 'transit' }, maxInFlight: 32, maxPerSecond: 500 };
    const opened = setup.source({ auth: { method: 'token', token }, transit, ...more });
    const { sign } = opened;
    if (sign === undefined) throw new TypeError('it does not sign');
    return { ...opened, sign };
  }

  /** A login with these versions of its secret, and a key of its name in the Transit engine with so many versions. */
  async function newLogin(versions: readonly ((name: string) => object)[], inTransit = 1): Promise<LoginRef> {
    logins += 1;
    const login = `l-${logins}`;
    for (let made = 0; made < inTransit; made += 1) await admin.newTransitKey(login);
    for (const fields of versions) await admin.put(`gateway/sandbox/${login}`, fields(login));
    return { environment: 'sandbox', login };
  }

  const version = (number: number) => (login: string) => ({ transit_key: `${login}:${number}` });

  async function publicKey({ login }: LoginRef, number: number) {
    const { data } = await admin.request('GET', `transit/keys/${login}`);
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
    expect(key).toMatchObject({ name: login.login, keyVersion: 1, mount: 'transit' });
    const signature = await keys.sign(login, key, baseString);
    const verifiedWith = async (number: number) =>
      verify(
        'sha256',
        Buffer.from(baseString),
        await publicKey(login, number),
        Buffer.from(signature, 'base64'),
      );
    expect([await verifiedWith(1), await verifiedWith(2)]).toEqual([true, false]);
    expect(setup.observed.signed).toEqual(['ok']);
  });

  it('has a ring of keys in the secret and in the Transit engine, newest first', async () => {
    const pem = privateKeyOf('rsa-2048-pkcs8.pem').export({ type: 'pkcs8', format: 'pem' });
    const login = await newLogin(
      [() => ({ private_key: pem, control_key: 'c' }), version(1), version(2), () => ({ private_key: pem })],
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
    await admin.request('POST', `transit/keys/${login.login}`, { type: 'ed25519' });
    expect(await problemOf(await source(), login)).toMatch(/is of type ed25519; an RSA key is needed/);
    const elsewhere = await source({ transit: { mounts: {}, maxInFlight: 2, maxPerSecond: 2 } });
    expect(await problemOf(elsewhere, login)).toMatch(/mounts has none for sandbox/);
  });

  it('a version that Vault does not sign with any more concerns only its login', async () => {
    const [login, other] = [await newLogin([version(1)], 2), await newLogin([version(1)])];
    const keys = await source();
    const [key, otherKey] = [await newestKey(keys, login), await newestKey(keys, other)];
    await admin.request('POST', `transit/keys/${login.login}/config`, { min_encryption_version: 2 });
    const unusable = { reason: 'key-unusable', outcome: 'not-sent' };
    await expect(keys.sign(login, key, baseString)).rejects.toMatchObject(unusable);
    // Vault responds with 500 to it.
    await expect(keys.sign(other, otherKey, baseString)).resolves.toMatch(/=$/);
    expect(setup.observed.signed).toEqual([expect.stringMatching(/^rejected: Vault rejected/), 'ok']);
    expect(await problemOf(await source(), login)).toMatch(
      /no longer signs with version 1: its min_encryption_version is 2/,
    );
  });

  it('a key that was replaced by another of its name is noticed before anything is sent', async () => {
    const login = await newLogin([version(1)]);
    const keys = await source();
    const key = await newestKey(keys, login);
    await admin.request('POST', `transit/keys/${login.login}/config`, { deletion_allowed: true });
    await admin.request('DELETE', `transit/keys/${login.login}`);
    await expect(keys.sign(login, key, baseString)).rejects.toMatchObject({ reason: 'key-unusable' });
    await admin.request('POST', `transit/keys/${login.login}`, { type: 'rsa-2048' });
    await expect(keys.sign(login, key, baseString)).rejects.toMatchObject({ reason: 'key-unusable' });
    expect(setup.observed.signed).toEqual([
      expect.stringMatching(/^rejected/),
      expect.stringMatching(/^invalid/),
    ]);
    const renewed = await newestKey(keys, login);
    await expect(keys.sign(login, renewed, baseString)).resolves.toMatch(/=$/);
  });
});
