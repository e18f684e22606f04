import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { VaultConfig } from '../../src/config/schema.ts';
import type { KeySource } from '../../src/keys/key-source.ts';
import {
  acme,
  controlKeys,
  problemOf,
  roleName,
  VaultTestEnvironment,
} from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const logins = /POST auth\/\w+\/login/;
const second = 1000;

let setup: VaultTestEnvironment;

beforeEach(async () => {
  setup = await new VaultTestEnvironment().open();
  await setup.admin.put('gateway/sandbox/acme', { control_key: 'first' });
});
afterEach(() => setup.close());

const open = (auth: VaultConfig['auth']): KeySource => setup.source({ auth });

async function expectRead(source: KeySource): Promise<void> {
  expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
}

/** Revokes every token, and lets time pass. */
function revokeAll(milliseconds: number): void {
  setup.vault.world().tokens.revokeAll();
  setup.clock.advance(milliseconds);
}

describe('the login to Vault when reads are denied', () => {
  const lookUps = /GET auth\/token\/lookup-self/;
  const other = { environment: 'sandbox', login: 'not-granted' };

  /** A token that may read only acme; with or without the permission to look itself up. */
  async function grantOne(settings: object): Promise<KeySource> {
    const path = { 'secret/data/gateway/sandbox/acme': { capabilities: ['read'] } };
    await setup.admin.request('POST', 'sys/policies/acl/one', { policy: JSON.stringify({ path }) });
    await setup.changeRole({ token_policies: ['one'], ...settings });
    const source = open(await setup.appRole());
    await source.read(acme);
    return source;
  }

  it('is not suspected within a second after it was known to be valid', async () => {
    const source = await grantOne({});
    const lookUpsAfter = async (milliseconds: number): Promise<number> => {
      setup.clock.advance(milliseconds);
      expect(await problemOf(source.read(other))).toBe('denied');
      return setup.vault.count(lookUps);
    };
    expect([await lookUpsAfter(999), await lookUpsAfter(1), await lookUpsAfter(999)]).toEqual([1, 2, 2]);
  });

  it('is not repeated because the version of the mount may not be read: the secret is not found', async () => {
    const source = await grantOne({ secret_id_num_uses: 1, token_no_default_policy: true });
    const path = { 'secret/data/gateway/*': { capabilities: ['read'] } };
    await setup.admin.request('POST', 'sys/policies/acl/one', { policy: JSON.stringify({ path }) });
    setup.vault.fail({ kind: 'status', status: 403 }, /ui\/mounts/);
    setup.clock.advance(6 * second);
    expect(await source.read(other)).toBe('not-found');
    expect(setup.vault.count(/ui\/mounts/)).toBe(1);
    expect(setup.vault.count(logins)).toBe(1);
  });

  it('and the token cannot be looked up, uses a new secret ID at once', async () => {
    const source = await grantOne({ secret_id_num_uses: 1, token_no_default_policy: true });
    revokeAll(6 * second);
    expect(await problemOf(source.read(acme))).toBe('denied');
    expect(setup.observed.problems).toEqual([
      expect.stringMatching(/^Vault login failed: .* the credentials/),
    ]);
    await setup.appRole();
    setup.clock.advance(second);
    await expectRead(source);
  });

  it('and the token cannot be looked up, is tried again if it failed because of an outage', async () => {
    const source = await grantOne({ token_no_default_policy: true });
    revokeAll(6 * second);
    setup.vault.fail({ kind: 'status', status: 503 }, /login/);
    expect(await problemOf(source.read(acme))).toBe('denied');
    setup.vault.heal();
    setup.clock.advance(second);
    await expectRead(source);
  });

  it('because the token was revoked, and no login is possible, is the only request that is still sent', async () => {
    const source = await grantOne({});
    // It looked itself up at the login, so a token of this role that cannot is revoked.
    revokeAll(6 * second);
    await setup.appRole('used-up');
    expect(await problemOf(source.read(acme))).toBe('bad-credentials');
    setup.vault.seen.length = 0;
    for (let waited = 0; waited < 20; waited += 1) {
      expect(await problemOf(source.read(acme))).toBe('backing-off');
      setup.clock.advance(second);
    }
    expect(setup.vault.seen).toEqual([]);
    expect(setup.observed.sourceUp).toBe(false);
    expect(setup.observed.expiries.at(-1)).toBeLessThan(setup.clock.now() / 1000);
    expect(setup.observed.leases.at(-1)).toBe(3600);
    await setup.appRole();
    await expectRead(source);
    expect(setup.observed.sourceUp).toBe(true);
  });

  it('and the token may not look itself up but is valid, leaves it in use if that fails', async () => {
    const source = await grantOne({ token_no_default_policy: true });
    await setup.appRole('used-up');
    for (let waited = 0; waited < 1000; waited += 5) {
      setup.clock.advance(5 * second);
      expect(await problemOf(source.read(other))).toBe('denied');
      await expectRead(source);
    }
    expect(setup.vault.count(logins)).toBeLessThan(1 + 8);
    expect(setup.observed.sourceUp).toBe(true);
  });

  it('because the token of a file was revoked, is not repeated before the file has another token', async () => {
    const newToken = async () =>
      setup.folder.file('token', await setup.admin.token({ policies: [roleName], ttl: 600 }));
    const tokenFile = await newToken();
    const source = open({ method: 'token', tokenFile });
    await source.read(acme);
    setup.clock.advance(2 * second);
    setup.vault.world().tokens.revokeAll();
    expect(await problemOf(source.read(acme))).toBe('bad-credentials');
    expect(setup.observed.problems).toEqual([expect.stringContaining('the credentials (HTTP 403, token)')]);
    setup.vault.seen.length = 0;
    for (const milliseconds of [0, 20 * second]) {
      setup.clock.advance(milliseconds);
      expect(await problemOf(source.read(acme))).toBe('backing-off');
    }
    expect(setup.vault.seen).toEqual([]);
    await newToken();
    await expectRead(source);
  });

  it('to the token of a file, uses another one as soon as the file has it, and does not revoke the first', async () => {
    setup.folder.file('token', await setup.admin.token({ policies: ['default'], ttl: 600 }));
    const source = open({ method: 'token', tokenFile: setup.folder.at('token') });
    expect(await problemOf(source.read(acme))).toBe('denied');
    setup.folder.file('token', await setup.admin.token({ policies: [roleName], ttl: 600 }));
    setup.clock.advance(2 * second);
    await expectRead(source);
    expect(setup.vault.world().tokens.count).toBe(2);
    // A wrong one is no reason to give up the one in use.
    setup.folder.file('token', 'wrong');
    setup.vault.fail({ kind: 'status', status: 403 }, /not-granted/);
    setup.clock.advance(2 * second);
    expect(await problemOf(source.read(other))).toBe('denied');
    expect(setup.observed.problems).toEqual([expect.stringContaining('the credentials (HTTP 403, token)')]);
    await expectRead(source);
  });

  it('because the token was revoked, is repeated in the background once it is possible', async () => {
    const source = await grantOne({});
    source.start();
    await until(() => setup.clock.nextTimer !== undefined, 'the next renewal is due later');
    revokeAll(6 * second);
    await setup.appRole('used-up');
    expect(await problemOf(source.read(acme))).toBe('bad-credentials');
    await setup.appRole();
    setup.clock.advance(2 * second);
    await until(() => setup.vault.count(logins) === 3, 'it has logged in');
  });

  it('and the token cannot be looked up because of an outage, reports the outage', async () => {
    const source = await grantOne({});
    setup.clock.advance(6 * second);
    setup.vault.fail({ kind: 'status', status: 503 }, /lookup-self/);
    expect(await problemOf(source.read(other))).toBe('sealed');
    expect(setup.vault.count(logins)).toBe(1);
  });
});
