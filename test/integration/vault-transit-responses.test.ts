import { generateKeyPairSync, type KeyObject, sign as signHere } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { VaultConfig } from '../../src/config/schema.ts';
import type { KeySource } from '../../src/keys/key-source.ts';
import { acme, newestTransitKey, VaultTestEnvironment } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';
import { privateKeyOf, publicKeyOf } from '../support/vectors.ts';

const baseString = 'POST&https%3A%2F%2Fgateway.example%2Ftransfer&amount%3D1.00';
const [keyPaths, signPaths] = [/^GET transit\/keys/, /transit\/sign/];
const logins = /POST auth\/approle\/login/;
const signature = signHere('sha256', Buffer.from(baseString), privateKeyOf('rsa-2048-pkcs8.pem'));
const base64 = signature.toString('base64');

let setup: VaultTestEnvironment;
let source: KeySource;

beforeEach(async () => {
  setup = await new VaultTestEnvironment().open();
  await setup.admin.enable('mounts', 'transit', { type: 'transit' });
  source = newSource();
  await name('acme:1');
  describeKey({});
});
afterEach(() => setup.close());

function newSource(more: Partial<VaultConfig> = {}): KeySource {
  const transit = { mounts: { sandbox: 'transit' }, maxInFlight: 2, maxPerSecond: 2 };
  return setup.source({ transit, ...more });
}

const name = (reference: string) => setup.admin.put('gateway/sandbox/acme', { transit_key: reference });

function describeKey(more: object, publicKey: KeyObject = publicKeyOf('rsa-2048-public.pem')): void {
  const entry = { public_key: publicKey.export({ type: 'spki', format: 'pem' }) };
  const limits = { latest_version: 2, min_encryption_version: 0 };
  const settings = { type: 'rsa-2048', exportable: false, allow_plaintext_backup: false, ...limits };
  const body = { data: { ...settings, keys: { 1: entry, 2: entry }, ...more } };
  setup.vault.fail({ kind: 'json', body }, /transit\/keys/);
}

/** The keys of the stub itself, and an AppRole that may read them and sign. */
async function useRole(settings: object): Promise<void> {
  setup.vault.heal();
  await setup.changeRole(settings);
  source = newSource({ auth: await setup.appRole() });
}

const newest = () => newestTransitKey(source);

/** Signs with the newest key. */
async function sign(): Promise<string> {
  const key = await newest();
  if (typeof key === 'string' || source.sign === undefined) throw new TypeError('no key');
  return source.sign(acme, key, baseString);
}

describe('a signature of Vault', () => {
  async function signed(response: string): Promise<string> {
    await newest();
    setup.vault.fail({ kind: 'json', body: { data: { signature: response } } }, signPaths);
    return sign();
  }

  it.each([
    ['another product', `bao:v1:${base64}`],
    ['base64 without padding', `vault:v1:${base64.replace(/=+$/, '')}`],
    ['base64 with a character of base64url', `vault:v1:${base64.replaceAll('/', '_')}`],
  ])('in the form of %s is sent as base64', async (_what, response) => {
    expect(await signed(response)).toBe(base64);
  });

  it.each([
    ['no form', base64],
    ['an empty signature', 'vault:v1:'],
    ['a header', `vault:v1:${base64.slice(0, 64)}\r\nX-Other: 1`],
    ['half a megabyte', `vault:v1:${'A'.repeat(524_288)}`],
    ['one byte less', `vault:v1:${signature.subarray(1).toString('base64')}`],
  ])('of %s is none', async (_what, response) => {
    await expect(signed(response)).rejects.toMatchObject({ reason: 'key-unusable', outcome: 'not-sent' });
  });
});

it('a key that is marked as deleted concerns only its login', async () => {
  await newest();
  const deleted = ['1 error occurred:\n\t* refusing to use soft-deleted key\n\n'];
  setup.vault.fail({ kind: 'status', status: 500, errors: deleted }, signPaths);
  await expect(sign()).rejects.toMatchObject({ reason: 'key-unusable' });
  describeKey({ soft_deleted: true });
  expect(await newest()).toBe('the Transit key transit/keys/acme is marked as deleted (soft-delete)');
});

describe('the public key that Vault names', () => {
  it('is read once', async () => {
    for (let reads = 0; reads < 3; reads += 1) expect(await newest()).toMatchObject({ keyVersion: 1 });
    expect(setup.vault.count(keyPaths)).toBe(1);
  });

  it('is remembered only for the version that was read: another one may no longer sign', async () => {
    await name('acme:2');
    describeKey({ min_encryption_version: 2 });
    expect(await newest()).toMatchObject({ keyVersion: 2 });
    await name('acme:1');
    expect(await newest()).toMatch(/no longer signs with version 1/);
  });

  it('that is too weak is not remembered', async () => {
    describeKey({}, generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey);
    expect(await newest()).toMatch(/1024 bits is too weak/);
    setup.vault.heal();
    describeKey({});
    expect(await newest()).toMatchObject({ keyVersion: 1 });
  });
});

it('a Transit key that Vault denies costs one login at most, however many versions name one', async () => {
  for (const version of ['2', '3', '4']) await name(`acme:${version}`);
  await useRole({ token_no_default_policy: true });
  await setup.admin.put('gateway/sandbox/other', { control_key: 'k' });
  await source.read({ ...acme, login: 'other' });
  setup.vault.fail({ kind: 'status', status: 403 }, /transit\/keys/);
  setup.clock.advance(6_000);
  expect(await newest()).toMatch(/permission/);
  expect(setup.vault.count(keyPaths)).toBeGreaterThan(3);
  expect(setup.vault.count(logins)).toBe(2);
});

it.each([0, 2000])(
  'a source that a reload has stopped still signs for requests in flight, %i ms later, and leaves no token behind',
  async (later) => {
    await useRole({});
    await setup.admin.newTransitKey('acme');
    const key = await newest();
    if (typeof key === 'string' || source.sign === undefined) throw new TypeError('no key');
    await source.stop();
    const { tokens } = setup.vault.world();
    expect(tokens.count).toBe(0);
    setup.clock.advance(later);
    await expect(source.sign(acme, key, baseString)).resolves.toMatch(/=$/);
    await until(() => tokens.count === 0, 'the token is revoked');
    expect(setup.vault.count(logins)).toBe(2);
  },
);
