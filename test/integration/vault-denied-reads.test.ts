import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { VaultConfig } from '../../src/config/schema.ts';
import type { KeySource } from '../../src/keys/key-source.ts';
import { createVaultSource } from '../../src/keys/vault/source.ts';
import {
  acme,
  approleMount,
  controlKeys,
  day,
  problemOf,
  roleName,
  VaultTestEnvironment,
} from '../support/stub-vault/harness.ts';

const logins = /POST auth\/\w+\/login/;
const second = 1000;

let bench: VaultTestEnvironment;

beforeEach(async () => {
  bench = await new VaultTestEnvironment().open();
  await bench.admin.put('gateway/sandbox/acme', { control_key: 'first' });
});
afterEach(() => bench.close());

function open(auth: VaultConfig['auth']): KeySource {
  return bench.closeAtEnd(createVaultSource(bench.config({ auth }), day, bench.options));
}

describe('the login to Vault when reads are denied', () => {
  const lookUps = /GET auth\/token\/lookup-self/;
  const other = { environment: 'sandbox', login: 'not-granted' };

  /** A token that may read acme and nothing else; with or without the right to look itself up. */
  async function grantOne(settings: object): Promise<KeySource> {
    const path = { 'secret/data/gateway/sandbox/acme': { capabilities: ['read'] } };
    await bench.admin.request('POST', 'sys/policies/acl/one', { policy: JSON.stringify({ path }) });
    const role = { token_policies: ['one'], token_ttl: 3600, ...settings };
    await bench.admin.role(approleMount, roleName, role);
    const source = open(await bench.appRole());
    await source.read(acme);
    return source;
  }

  /** Reads the login that is not granted every five seconds for an hour. */
  async function readDenied(source: KeySource): Promise<void> {
    for (let waited = 0; waited < 3500; waited += 5) {
      bench.clock.advance(5 * second);
      expect(['denied', 'backing-off']).toContain(await problemOf(source.read(other)));
    }
  }

  it('is not repeated because of a missing permission, if the token may look itself up', async () => {
    const source = await grantOne({});
    await readDenied(source);
    expect(bench.vault.count(logins)).toBe(1);
    expect(bench.vault.count(lookUps)).toBeGreaterThan(10);
    expect(bench.vault.world().tokens.count).toBe(1);
  });

  it('is repeated every ten minutes at most if it may not, and leaves no token behind', async () => {
    const source = await grantOne({ token_no_default_policy: true });
    const path = {
      'secret/data/gateway/sandbox/acme': { capabilities: ['read'] },
      'auth/token/revoke-self': { capabilities: ['update'] },
    };
    await bench.admin.request('POST', 'sys/policies/acl/one', { policy: JSON.stringify({ path }) });
    await readDenied(source);
    expect(bench.vault.count(logins)).toBeGreaterThan(1);
    expect(bench.vault.count(logins)).toBeLessThanOrEqual(1 + 6);
    expect(bench.vault.world().tokens.count).toBe(1);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('is repeated at once each time the token was revoked', async () => {
    const source = await grantOne({});
    for (let times = 2; times < 5; times += 1) {
      bench.vault.world().tokens.revokeAll();
      bench.clock.advance(6 * second);
      expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
      expect(bench.vault.count(logins)).toBe(times);
    }
  });

  it('does not look up a token with limited uses, which would count as one', async () => {
    const source = await grantOne({ token_num_uses: 1 });
    expect(bench.vault.count(lookUps)).toBe(0);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('because the token was revoked: key_source_up is 0 until a login succeeds', async () => {
    const source = await grantOne({ secret_id_num_uses: 1 });
    bench.vault.world().tokens.revokeAll();
    bench.clock.advance(6 * second);
    expect(await problemOf(source.read(acme))).toBe('bad-credentials');
    expect(bench.observed.sourceUp).toBe(false);
    const asked = bench.vault.seen.length;
    expect(await problemOf(source.read(acme))).toBe('backing-off');
    expect(bench.vault.seen).toHaveLength(asked);
    await bench.appRole();
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    expect(bench.observed.sourceUp).toBe(true);
  });

  it('and the token cannot be looked up, uses a new secret ID at once', async () => {
    const source = await grantOne({ secret_id_num_uses: 1, token_no_default_policy: true });
    bench.vault.world().tokens.revokeAll();
    bench.clock.advance(6 * second);
    expect(await problemOf(source.read(acme))).toBe('bad-credentials');
    bench.clock.advance(6 * second);
    expect(await problemOf(source.read(acme))).toBe('denied');
    await bench.appRole();
    bench.clock.advance(6 * second);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('and the token cannot be looked up, is tried again if it failed because of an outage', async () => {
    const source = await grantOne({ token_no_default_policy: true });
    bench.vault.world().tokens.revokeAll();
    bench.clock.advance(6 * second);
    bench.vault.fail({ kind: 'status', status: 503 }, /login/);
    expect(await problemOf(source.read(acme))).toBe('sealed');
    bench.vault.heal();
    bench.clock.advance(6 * second);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('and the token was revoked two seconds after it was known to be valid, is repeated', async () => {
    const source = await grantOne({});
    bench.clock.advance(2 * second);
    bench.vault.world().tokens.revokeAll();
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('because the token was revoked, and no login is possible, is the only request that is still sent', async () => {
    const source = await grantOne({});
    bench.clock.advance(6 * second);
    // It looked itself up, so a token of this role that cannot is a revoked one.
    expect(await problemOf(source.read(other))).toBe('denied');
    bench.clock.advance(6 * second);
    bench.vault.world().tokens.revokeAll();
    await bench.appRole('used-up');
    expect(await problemOf(source.read(acme))).toBe('bad-credentials');
    bench.vault.seen.length = 0;
    for (let waited = 0; waited < 20; waited += 1) {
      expect(await problemOf(source.read(acme))).toBe('backing-off');
      bench.clock.advance(second);
    }
    expect(bench.vault.seen).toEqual([]);
    expect(bench.observed.expiries.at(-1)).toBeLessThan(bench.clock.now() / 1000);
    await bench.appRole();
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('and the token, which never looked itself up, was revoked, is repeated once that is possible', async () => {
    const source = await grantOne({});
    bench.clock.advance(6 * second);
    bench.vault.world().tokens.revokeAll();
    await bench.appRole('used-up');
    expect(await problemOf(source.read(acme))).toBe('bad-credentials');
    bench.clock.advance(6 * second);
    expect(await problemOf(source.read(acme))).toBe('backing-off');
    await bench.appRole();
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('and the token may not look itself up but is valid, is repeated every ten minutes at most', async () => {
    const source = await grantOne({ token_no_default_policy: true });
    await bench.appRole('used-up');
    const problems: string[] = [];
    for (let waited = 0; waited < 1000; waited += 5) {
      bench.clock.advance(5 * second);
      problems.push(await problemOf(source.read(other)));
      expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    }
    expect(problems.filter((kind) => kind === 'bad-credentials')).toHaveLength(2);
    expect(new Set(problems)).toEqual(new Set(['bad-credentials', 'denied', 'backing-off']));
    expect(bench.vault.count(logins)).toBe(1 + 2);
  });

  it('because the token of a file was revoked, is not repeated before the file has another token', async () => {
    const newToken = async () =>
      bench.folder.file('token', await bench.admin.token({ policies: [roleName], ttl: 600 }));
    const tokenFile = await newToken();
    const source = open({ method: 'token', tokenFile });
    await source.read(acme);
    bench.clock.advance(2 * second);
    bench.vault.world().tokens.revokeAll();
    expect(await problemOf(source.read(acme))).toBe('bad-credentials');
    expect(bench.observed.problems).toEqual([expect.stringContaining('the credentials (HTTP 403, token)')]);
    bench.vault.seen.length = 0;
    expect(await problemOf(source.read(acme))).toBe('backing-off');
    expect(bench.vault.seen).toEqual([]);
    await newToken();
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('and the token cannot be looked up because of an outage, reports the outage', async () => {
    const source = await grantOne({});
    bench.clock.advance(6 * second);
    bench.vault.fail({ kind: 'status', status: 503 }, /lookup-self/);
    expect(await problemOf(source.read(other))).toBe('sealed');
    expect(bench.vault.count(logins)).toBe(1);
  });
});
