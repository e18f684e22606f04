import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { VaultConfig } from '../../src/config/schema.ts';
import type { KeySource } from '../../src/keys/key-source.ts';
import { connectVault } from '../../src/keys/vault/connect.ts';
import { VaultError } from '../../src/keys/vault/errors.ts';
import { createVaultSource } from '../../src/keys/vault/source.ts';
import { Secret } from '../../src/secret.ts';
import {
  acme,
  approleMount,
  controlKeys,
  day,
  problemOf,
  roleName,
  until,
  VaultTestEnvironment,
} from '../support/stub-vault/harness.ts';

const logins = /POST auth\/\w+\/login/;
const renewals = /POST auth\/token\/renew-self/;
const second = 1000;
const minute = 60 * second;

describe('the login to Vault', () => {
  let bench: VaultTestEnvironment;

  beforeEach(async () => {
    bench = await new VaultTestEnvironment().open();
    await bench.admin.put('gateway/sandbox/acme', { control_key: 'first' });
  });
  afterEach(() => bench.close());

  function open(auth: VaultConfig['auth']): KeySource {
    return bench.closeAtEnd(createVaultSource(bench.config({ auth }), day, bench.options));
  }

  /** Started, and logged in without any read. */
  async function started(auth: VaultConfig['auth']): Promise<KeySource> {
    const source = open(auth);
    source.start();
    await until(() => source.ready(), 'it has logged in');
    return source;
  }

  async function wake(milliseconds: number, done: () => boolean, what: string): Promise<void> {
    bench.clock.advance(milliseconds);
    await until(done, what);
  }

  it('happens once for concurrent requests', async () => {
    const source = open(await bench.appRole());
    const asked = Array.from({ length: 20 }, () => source.read(acme));
    expect((await Promise.all(asked)).map(controlKeys)).toEqual(asked.map(() => ['1:first']));
    expect(bench.vault.count(logins)).toBe(1);
  });

  it('happens at the start, so that the first request does not wait for it', async () => {
    const source = open(await bench.appRole());
    expect(source.ready()).toBe(false);
    source.start();
    await until(() => source.ready(), 'it has logged in');
    expect(bench.vault.count(logins)).toBe(1);
    expect(bench.vault.count(/GET secret/)).toBe(0);
  });

  it('happens in the background as soon as Vault can be reached', async () => {
    const source = open(await bench.appRole());
    bench.vault.sealed = true;
    source.start();
    await until(() => bench.observed.problems.length === 1, 'the failure is told');
    expect(bench.observed.problems[0]).toContain('Vault is sealed');
    bench.vault.heal();
    for (let waited = 0; waited < 10 && !source.ready(); waited += 1) {
      bench.clock.advance(10 * second);
      await until(() => source.ready() || bench.clock.nextTimer !== undefined, 'it has looked again');
    }
    expect(source.ready()).toBe(true);
  });

  it('is renewed at two thirds of the lease, with a tenth of jitter', async () => {
    for (const [random, expected] of [
      [0, 2160],
      [0.5, 2400],
      [1, 2640],
    ] as const) {
      const auth = await bench.appRole();
      const source = createVaultSource(bench.config({ auth }), day, { ...bench.options, random: () => random });
      source.start();
      await until(() => source.ready(), 'it has logged in');
      expect(bench.clock.nextTimer).toBe(expected * second);
      await source.stop();
    }
  });

  it("is renewed until the token's maximum TTL, then repeated", async () => {
    await bench.admin.role(approleMount, roleName, {
      token_policies: [roleName],
      token_ttl: 3600,
      token_max_ttl: 5400,
    });
    const source = await started(await bench.appRole());
    await wake(2400 * second, () => bench.vault.count(renewals) === 1, 'it has renewed');
    await until(() => bench.observed.expiries.length === 2, 'the new end is told');
    expect(bench.vault.count(logins)).toBe(1);
    // 3000 s are left of the token's life.
    await wake(2000 * second, () => bench.vault.count(logins) === 2, 'it has logged in again');
    await until(() => bench.observed.expiries.length === 3, 'the new end is told');
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    expect(bench.observed.problems).toEqual([]);
  });

  it('is repeated if renewal is denied', async () => {
    const source = await started(await bench.appRole());
    bench.vault.world().tokens.revokeAll();
    await wake(2400 * second, () => bench.vault.count(logins) === 2, 'it has logged in again');
    await until(() => bench.observed.expiries.length === 2, 'the new end is told');
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    expect(bench.vault.count(logins)).toBe(2);
  });

  it('keeps its token while Vault cannot renew it, and uses up no secret ID', async () => {
    const source = await started(await bench.appRole());
    bench.vault.fail({ kind: 'status', status: 500 }, /renew-self/);
    await wake(2400 * second, () => bench.vault.count(renewals) === 1, 'it has tried to renew');
    bench.vault.heal();
    for (let waited = 0; waited < 60 && bench.vault.count(renewals) < 2; waited += 1) {
      bench.clock.advance(second);
      await until(() => bench.clock.nextTimer !== undefined, 'it has looked again');
    }
    await until(() => bench.observed.expiries.length === 2, 'it has renewed');
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    expect(bench.vault.count(logins)).toBe(1);
  });

  it('is repeated after the token has expired, even if no renewal was tried', async () => {
    const source = open(await bench.appRole());
    await source.read(acme);
    bench.clock.advance(3601 * second);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    expect(bench.vault.count(logins)).toBe(2);
  });

  it.each([-6, 6])('and its waits do not depend on a clock that is changed by %d hours', async (hours) => {
    let set = 0;
    const ports = { ...bench.options, clock: () => bench.clock.now() + set };
    const source = bench.closeAtEnd(
      createVaultSource(bench.config({ auth: await bench.appRole() }), day, ports),
    );
    await source.read(acme);
    bench.vault.sealed = true;
    expect(await problemOf(source.read(acme))).toBe('sealed');
    bench.vault.sealed = false;
    set = hours * 3600 * second;
    expect(await problemOf(source.read(acme))).toBe('backing-off');
    bench.clock.advance(minute);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    expect(bench.vault.count(logins)).toBe(1);
    bench.vault.world().tokens.revokeAll();
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('is repeated once if a revoked token is denied to many requests', async () => {
    const source = open(await bench.appRole());
    await source.read(acme);
    bench.vault.world().tokens.revokeAll();
    bench.clock.advance(minute);
    const asked = Array.from({ length: 20 }, () => source.read(acme));
    expect((await Promise.all(asked)).map(controlKeys)).toEqual(asked.map(() => ['1:first']));
    expect(bench.vault.count(logins)).toBe(2);
  });

  it('also serves a request that learns late that the old token was denied', async () => {
    const vault = bench.closeAtEnd(connectVault(bench.config({ auth: await bench.appRole() }), bench.options));
    const denied = new VaultError('denied', { status: 403 });
    const waiting = Promise.withResolvers<never>();
    const tokens: Secret[] = [];
    const work = (outcome: Promise<never>) => (token: Secret) => {
      tokens.push(token);
      return tokens.length <= 2 ? outcome : Promise.resolve('done');
    };
    const late = vault.tokens.withToken(work(waiting.promise));
    await until(() => tokens.length === 1, 'the first has its token');
    bench.clock.advance(minute);
    bench.vault.world().tokens.revokeAll();
    expect(await vault.tokens.withToken(work(Promise.reject(denied)))).toBe('done');
    waiting.reject(denied);
    expect(await late).toBe('done');
    expect(bench.vault.count(logins)).toBe(2);
    expect(tokens[3]).toBe(tokens[2]);
  });

  describe('when it stops', () => {
    const tokens = () => bench.vault.world().tokens.count;

    it('is revoked', async () => {
      const source = await started(await bench.appRole());
      expect(tokens()).toBe(1);
      await source.stop();
      expect(tokens()).toBe(0);
    });

    it('is not revoked if the token was configured', async () => {
      const token = await bench.admin.token({ policies: [roleName], ttl: 600 });
      const source = await started({ method: 'token', token: new Secret(token) });
      await source.stop();
      expect(tokens()).toBe(1);
      expect(bench.vault.count(/revoke/)).toBe(0);
    });

    it('lets an in-flight read finish first', async () => {
      const source = await started(await bench.appRole());
      const reading = source.read(acme);
      await source.stop();
      expect(controlKeys(await reading)).toEqual(['1:first']);
      expect(tokens()).toBe(0);
    });

    it('waits two seconds at most for a Vault that hangs', async () => {
      const source = await started(await bench.appRole());
      bench.vault.fail({ kind: 'black-hole' });
      const begun = performance.now();
      await source.stop();
      expect(performance.now() - begun).toBeLessThan(3000);
    });
  });

  it('stops without pending timers', async () => {
    const source = await started(await bench.appRole());
    void source.stop();
    expect(bench.clock.nextTimer).toBeUndefined();
  });

  describe('rejected with 400', () => {
    it('is not tried again for a long while, and reported once', async () => {
      const source = open(await bench.appRole('wrong'));
      source.start();
      await until(() => bench.observed.problems.length === 1, 'the refusal is told');
      for (let waited = 0; waited < 20; waited += 1) {
        bench.clock.advance(second);
        expect(await problemOf(source.read(acme))).toBe('backing-off');
      }
      expect(bench.vault.count(logins)).toBe(1);
      expect(bench.observed.problems).toEqual([
        'Vault login failed: Vault rejected the credentials (HTTP 400, approle)',
      ]);
    });

    it('is tried again after half a minute, then backs off up to five minutes', async () => {
      const source = open(await bench.appRole('wrong'));
      for (let waited = 0; waited < 3600; waited += 5) {
        await problemOf(source.read(acme));
        bench.clock.advance(5 * second);
      }
      expect(bench.vault.count(logins)).toBeGreaterThan(12);
      expect(bench.vault.count(logins)).toBeLessThan(24);
    });

    it('is tried again at once if the secret ID in the file changed', async () => {
      const source = open(await bench.appRole('wrong'));
      expect(await problemOf(source.read(acme))).toBe('bad-credentials');
      await bench.appRole();
      expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    });

    it('is tried again in the background if the secret ID in the file changed', async () => {
      const source = open(await bench.appRole('wrong'));
      source.start();
      await until(() => bench.clock.nextTimer !== undefined, 'the refusal is known');
      await bench.appRole();
      await wake(10 * second, () => source.ready(), 'it has logged in');
      expect(bench.vault.count(logins)).toBe(2);
      expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    });

    it('happens if a secret ID is used up', async () => {
      await bench.admin.role(approleMount, roleName, { token_policies: [roleName], secret_id_num_uses: 1 });
      const source = open(await bench.appRole());
      await source.read(acme);
      bench.clock.advance(2 * 3600 * second);
      expect(await problemOf(source.read(acme))).toBe('bad-credentials');
    });
  });

  it('unwraps a wrapped secret ID once and logs in with it as often as needed', async () => {
    const wrapped = await bench.admin.wrappedSecretId(approleMount, roleName);
    const wrappedSecretIdFile = bench.folder.file('wrapped', wrapped);
    const source = open({
      method: 'approle',
      mount: approleMount,
      roleId: bench.roleId,
      wrappedSecretIdFile,
    });
    for (let times = 0; times < 3; times += 1) {
      await source.read(acme);
      bench.clock.advance(2 * 3600 * second);
    }
    expect(bench.vault.count(logins)).toBe(3);
    expect(bench.vault.count(/wrapping\/unwrap/)).toBe(1);
    bench.folder.file('wrapped', await bench.admin.wrappedSecretId(approleMount, roleName));
    await source.read(acme);
    expect(bench.vault.count(/wrapping\/unwrap/)).toBe(2);
  });

  it('reads the service account token each time', async () => {
    const { kubernetes } = bench.vault.world();
    kubernetes.role('signer', { policies: [roleName], ttl: 600 });
    kubernetes.accept('jwt-1');
    const jwtFile = bench.folder.file('jwt', 'jwt-1');
    const source = open({ method: 'kubernetes', mount: 'kubernetes', role: 'signer', jwtFile });
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    kubernetes.reject('jwt-1');
    kubernetes.accept('jwt-2');
    bench.folder.file('jwt', 'jwt-2');
    bench.clock.advance(601 * second);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('is rejected for a service account token that the cluster does not know', async () => {
    bench.vault.world().kubernetes.role('signer', { policies: [roleName], ttl: 600 });
    const jwtFile = bench.folder.file('jwt', 'forged');
    const source = open({ method: 'kubernetes', mount: 'kubernetes', role: 'signer', jwtFile });
    expect(await problemOf(source.read(acme))).toBe('bad-credentials');
  });

  it('names the file that is missing, and recovers when it exists', async () => {
    const tokenFile = `${bench.folder.path}/token`;
    const source = open({ method: 'token', tokenFile });
    expect(await problemOf(source.read(acme))).toBe('no-credentials');
    expect(bench.observed.problems).toEqual([
      `Vault login failed: the Vault credentials cannot be read (cannot read ${tokenFile})`,
    ]);
    bench.folder.file('token', await bench.admin.token({ policies: [roleName], ttl: 600 }));
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('waits as long as Retry-After says', async () => {
    const source = open(await bench.appRole());
    bench.vault.fail({ kind: 'status', status: 429, headers: { 'Retry-After': '90' } });
    source.start();
    await until(() => bench.clock.nextTimer !== undefined, 'the failure is known');
    for (let waited = 0; waited < 85; waited += 1) {
      bench.clock.advance(second);
      await problemOf(source.read(acme));
    }
    expect(bench.vault.count(logins)).toBe(1);
  });

  it.each([
    ['no auth at all', { auth: null }],
    ['an empty token', { auth: { client_token: '', lease_duration: 60, renewable: true } }],
    ['a lease that is no number', { auth: { client_token: 'x', lease_duration: '60', renewable: true } }],
  ])('does not accept a response with %s as a login', async (_name, body) => {
    const source = open(await bench.appRole());
    bench.vault.fail({ kind: 'json', body }, /login/);
    expect(await problemOf(source.read(acme))).toBe('invalid-response');
  });

  it('warns when a configured token is about to expire', async () => {
    const token = new Secret(
      await bench.admin.token({ policies: [roleName], ttl: 600, explicit_max_ttl: 900 }),
    );
    await started({ method: 'token', token });
    expect(bench.observed.problems).toEqual([]);
    await wake(400 * second, () => bench.observed.expiries.length === 2, 'it has renewed');
    await wake(400 * second, () => bench.observed.problems.length > 0, 'the end is told');
    expect(bench.observed.problems[0]).toBe(
      'the configured Vault token expires at 2026-01-01T00:15:00.000Z; replace it',
    );
  });
});
