import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { VaultConfig } from '../../src/config/schema.ts';
import type { KeySource } from '../../src/keys/key-source.ts';
import { Secret } from '../../src/secret.ts';
import {
  acme,
  approleMount,
  controlKeys,
  day,
  problemOf,
  roleName,
  VaultTestEnvironment,
} from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const logins = /POST auth\/\w+\/login/;
const renewals = /POST auth\/token\/renew-self/;
const second = 1000;
const minute = 60 * second;

let setup: VaultTestEnvironment;

beforeEach(async () => {
  setup = await new VaultTestEnvironment().open();
  await setup.admin.put('gateway/sandbox/acme', { control_key: 'first' });
});
afterEach(() => setup.close());

const open = (auth: VaultConfig['auth']): KeySource => setup.source({ auth });
const newToken = (settings: object = {}) =>
  setup.admin.token({ policies: [roleName], ttl: 600, ...settings });

/** A source that has started and logged in without any read. */
async function started(auth: VaultConfig['auth'], source = open(auth)): Promise<KeySource> {
  source.start();
  await until(() => source.ready(), 'it has logged in');
  return source;
}

async function wake(milliseconds: number, done: () => boolean, what: string): Promise<void> {
  setup.clock.advance(milliseconds);
  await until(done, what);
}

/** Advances the clock until the token was obtained, looked up or renewed once more. */
function advance(milliseconds: number): Promise<void> {
  const before = setup.observed.leases.length;
  return wake(milliseconds, () => setup.observed.leases.length > before, 'a new lease is reported');
}

async function expectRead(source: KeySource): Promise<void> {
  expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
}

function kubernetes() {
  const method = setup.vault.world().kubernetes;
  method.role('signer', { policies: [roleName], ttl: 600 });
  const jwtFile = setup.folder.file('jwt', 'jwt-1');
  return { method, auth: { method: 'kubernetes', mount: 'kubernetes', role: 'signer', jwtFile } as const };
}

describe('the login to Vault', () => {
  it('happens once for concurrent requests, and once more if its token, which was revoked, is denied to them', async () => {
    const source = open(await setup.appRole());
    for (const times of [1, 2]) {
      const reads = Array.from({ length: 20 }, () => source.read(acme));
      expect((await Promise.all(reads)).map(controlKeys)).toEqual(reads.map(() => ['1:first']));
      expect(setup.vault.count(logins)).toBe(times);
      setup.vault.world().tokens.revokeAll();
      setup.clock.advance(minute);
    }
    expect(setup.clock.nextTimer).toBeUndefined();
  });

  it('happens at the start, before the first request', async () => {
    const source = open(await setup.appRole());
    expect(source.ready()).toBe(false);
    await started(await setup.appRole(), source);
    expect([setup.vault.count(logins), setup.vault.count(/GET secret/)]).toEqual([1, 0]);
  });

  it.each([
    ['by a closed connection', async () => open(await setup.appRole())],
    ['since the API server of Kubernetes is away', async () => open(kubernetes().auth)],
  ])('that fails %s is repeated in the background within two seconds each time', async (how, opened) => {
    const source = await opened();
    if (how === 'by a closed connection') setup.vault.fail({ kind: 'reset' });
    source.start();
    for (let attempt = 1; attempt <= 10; attempt += 1) {
      await until(() => setup.clock.nextTimer !== undefined, 'the attempt has failed');
      expect(setup.vault.count(logins)).toBe(attempt);
      expect(setup.clock.nextTimer).toBeGreaterThanOrEqual(750);
      expect(setup.clock.nextTimer).toBeLessThanOrEqual(2 * second);
      if (attempt < 10) setup.clock.advance(2 * second);
    }
    setup.vault.heal();
    kubernetes().method.accept('jwt-1');
    await wake(2 * second, () => source.ready(), 'it has logged in');
  });

  it.each([
    [0, 2160],
    [1, 2640],
  ])('is renewed at two thirds of the lease, with a tenth of jitter: %d', async (random, expected) => {
    const auth = await setup.appRole();
    await started(auth, setup.source({ auth }, { random: () => random }));
    expect(setup.clock.nextTimer).toBe(expected * second);
  });

  it.each([
    [7000, 'is renewed', [1, 1]],
    [5400, 'is repeated, since the renewal grants less than the whole lease', [1, 2]],
  ])('of which at most %d s are permitted %s', async (maximum, _what, expected) => {
    await setup.changeRole({ token_ttl: 3600, token_max_ttl: maximum });
    const source = await started(await setup.appRole());
    await advance(2400 * second);
    expect([setup.vault.count(renewals), setup.vault.count(logins)]).toEqual(expected);
    expect(setup.observed.leases).toEqual([3600, 3600]);
    expect(setup.observed.problems).toEqual([]);
    await expectRead(source);
  });

  it('has one renewal due, also after another login', async () => {
    const source = await started(await setup.appRole());
    setup.vault.world().tokens.revokeAll();
    setup.clock.advance(minute);
    await source.read(acme);
    await wake(2400 * second, () => setup.observed.expiries.length === 4, 'the new expiry is reported');
    expect(setup.vault.count(renewals)).toBe(1);
  });

  it('is repeated if renewal is denied', async () => {
    const source = await started(await setup.appRole());
    setup.vault.world().tokens.revokeAll();
    await advance(2400 * second);
    expect(setup.vault.count(logins)).toBe(2);
    await expectRead(source);
  });

  it('keeps its token while Vault cannot renew it, and tries again within two seconds', async () => {
    const source = await started(await setup.appRole());
    setup.vault.fail({ kind: 'status', status: 500 }, /renew-self/);
    await wake(2400 * second, () => setup.vault.count(renewals) === 1, 'it has tried to renew');
    await until(() => setup.clock.nextTimer !== undefined, 'that failed');
    expect(setup.clock.nextTimer).toBeGreaterThanOrEqual(second);
    setup.vault.heal();
    await expectRead(source);
    await advance(2 * second);
    expect([setup.vault.count(renewals), setup.vault.count(logins)]).toEqual([2, 1]);
  });

  it('is repeated after the token has expired, even if no renewal was tried', async () => {
    const source = open(await setup.appRole());
    await source.read(acme);
    setup.clock.advance(3601 * second);
    await expectRead(source);
    expect(setup.vault.count(logins)).toBe(2);
  });

  it.each([-6, 6])('and its waits do not depend on a clock that is changed by %d hours', async (hours) => {
    let set = 0;
    const clock = (): number => setup.clock.now() + set;
    const source = setup.source({ auth: await setup.appRole() }, { clock });
    setup.vault.sealed = true;
    expect(await problemOf(source.read(acme))).toBe('sealed');
    setup.vault.sealed = false;
    set = hours * 3600 * second;
    expect(await problemOf(source.read(acme))).toBe('backing-off');
    setup.clock.advance(second);
    await expectRead(source);
    set = 0;
    setup.clock.advance(minute);
    await expectRead(source);
    expect(setup.vault.count(logins)).toBe(2);
  });

  describe('when it stops', () => {
    const tokens = () => setup.vault.world().tokens.count;

    it('is revoked also if it has just begun', async () => {
      const source = open(await setup.appRole());
      source.start();
      await source.stop();
      expect([setup.vault.count(logins), tokens()]).toEqual([1, 0]);
    });

    it('is not revoked if the token was configured', async () => {
      const source = await started({ method: 'token', token: new Secret(await newToken()) });
      await source.stop();
      expect([setup.vault.count(/revoke/), tokens()]).toEqual([0, 1]);
    });

    it('lets an in-flight read of several versions finish with the same token, and has no timer', async () => {
      for (const control_key of ['second', 'third'])
        await setup.admin.put('gateway/sandbox/acme', { control_key });
      const source = await started(await setup.appRole());
      const reading = source.read(acme);
      await source.stop();
      expect(controlKeys(await reading)).toEqual(['3:third', '2:second', '1:first']);
      expect([setup.vault.count(logins), tokens()]).toEqual([1, 0]);
      expect(setup.clock.nextTimer).toBeUndefined();
    });

    it('waits two seconds at most for a Vault that hangs, and a renewal in flight does not repeat it', async () => {
      await setup.changeRole({ token_max_ttl: 5400 });
      const source = await started(await setup.appRole());
      setup.vault.fail({ kind: 'black-hole' }, /revoke-self/);
      setup.clock.advance(2400 * second);
      const begun = performance.now();
      await source.stop();
      expect(performance.now() - begun).toBeLessThan(2000);
      expect([setup.vault.count(renewals), setup.vault.count(logins)]).toEqual([1, 1]);
    });
  });

  it('is reported every five minutes while it fails, and at once when it fails anew', async () => {
    await setup.changeRole({ token_ttl: 60 });
    const source = open(await setup.appRole());
    const readAfter = async (milliseconds: number): Promise<string> => {
      setup.clock.advance(milliseconds);
      return problemOf(source.read(acme));
    };
    const reports: number[] = [];
    setup.vault.sealed = true;
    for (const milliseconds of [0, 5 * minute - 2 * second, 2 * second]) {
      expect(await readAfter(milliseconds)).toBe('sealed');
      expect(await readAfter(0)).toBe('backing-off');
      reports.push(setup.observed.problems.length);
    }
    expect(reports).toEqual([1, 1, 2]);
    setup.vault.fail({ kind: 'status', status: 429 });
    expect(await readAfter(10 * second)).toBe('throttled');
    expect(setup.observed.problems).toHaveLength(3);
    setup.vault.heal();
    expect(await readAfter(10 * second)).toBe('none');
    setup.vault.sealed = true;
    expect(await readAfter(61 * second)).toBe('sealed');
    expect(setup.observed.problems).toHaveLength(4);
  });

  describe('rejected with 400', () => {
    it('is tried again after half a minute, then backs off up to five minutes, and reported once', async () => {
      const source = open(await setup.appRole('wrong'));
      source.start();
      await until(() => setup.observed.problems.length === 1, 'the rejection is reported');
      for (let waited = 0; waited < 3600; waited += 5) {
        await problemOf(source.read(acme));
        if (waited === 20) {
          expect(setup.vault.count(logins)).toBe(1);
          const rejected = 'Vault login failed: Vault rejected the credentials (HTTP 400, approle)';
          expect(setup.observed.problems).toEqual([rejected]);
        }
        setup.clock.advance(5 * second);
      }
      expect(setup.vault.count(logins)).toBeGreaterThan(12);
      expect(setup.vault.count(logins)).toBeLessThan(24);
    });

    it.each(['role-id', 'secret-id'])('is tried again at once if the file %s changed', async (changed) => {
      const right: Record<string, string> = {
        'role-id': setup.roleId,
        'secret-id': await setup.admin.secretId(approleMount, roleName),
      };
      for (const [name, id] of Object.entries(right))
        setup.folder.file(name, name === changed ? 'wrong' : id);
      const [roleIdFile, secretIdFile] = [setup.folder.at('role-id'), setup.folder.at('secret-id')];
      const source = open({ method: 'approle', mount: approleMount, roleIdFile, secretIdFile });
      expect(await problemOf(source.read(acme))).toBe('bad-credentials');
      setup.folder.file(changed, right[changed] ?? '');
      await expectRead(source);
    });

    it('is tried again in the background if the secret ID in the file changed', async () => {
      const source = open(await setup.appRole('wrong'));
      source.start();
      await until(() => setup.clock.nextTimer !== undefined, 'the rejection is known');
      await setup.appRole();
      await wake(2 * second, () => source.ready(), 'it has logged in');
      expect(setup.vault.count(logins)).toBe(2);
    });
  });

  it('that fails because of an outage is tried once a second, however many requests come', async () => {
    const source = open(await setup.appRole());
    setup.vault.sealed = true;
    setup.vault.seen.length = 0;
    for (let waited = 0; waited < 10; waited += 1) {
      const problems = await Promise.all(Array.from({ length: 5 }, () => problemOf(source.read(acme))));
      expect(problems).toEqual(problems.map(() => 'sealed'));
      setup.clock.advance(second / 2);
      const failed = await source.read(acme).catch((error: unknown) => error);
      const cause = { kind: 'backing-off', cause: { kind: 'sealed' } };
      expect(failed).toMatchObject({ source: 'down', cause });
      setup.clock.advance(second / 2);
    }
    expect(setup.vault.seen).toHaveLength(10);
    setup.vault.heal();
    await expectRead(source);
  });

  it('whose token has a limited number of uses is refused and says what to do, backs off, and leaves no token', async () => {
    await setup.changeRole({ token_num_uses: 1000 });
    const source = open(await setup.appRole());
    expect(await problemOf(source.read(acme))).toBe('limited-uses');
    setup.clock.advance(20 * second);
    expect(await problemOf(source.read(acme))).toBe('backing-off');
    expect([setup.vault.count(logins), setup.vault.world().tokens.count]).toEqual([1, 0]);
    expect(setup.observed.problems).toEqual([
      expect.stringMatching(
        /^Vault login failed: .*limited number of uses; set token_num_uses of its role to 0/,
      ),
    ]);
    await setup.changeRole({ token_num_uses: 0 });
    setup.clock.advance(10 * second);
    await expectRead(source);
  });

  it('reads the service account token each time; one that the cluster does not know is rejected', async () => {
    const { method, auth } = kubernetes();
    expect(await problemOf(open(auth).read(acme))).toBe('bad-credentials');
    method.accept('jwt-1');
    const source = open(auth);
    await expectRead(source);
    method.reject('jwt-1');
    method.accept('jwt-2');
    setup.folder.file('jwt', 'jwt-2');
    setup.clock.advance(601 * second);
    await expectRead(source);
  });

  it('names the file that is missing or empty, and recovers when it exists, with BOM and CR LF', async () => {
    const tokenFile = setup.folder.at('token');
    const source = open({ method: 'token', tokenFile });
    const unreadable = (why: string) => `Vault login failed: the Vault credentials cannot be read (${why})`;
    expect(await problemOf(source.read(acme))).toBe('no-credentials');
    expect(setup.observed.problems).toEqual([unreadable(`${tokenFile}: does not exist`)]);
    setup.folder.file('token', ' \n');
    await expect(source.read(acme)).rejects.toMatchObject({ problem: unreadable(`${tokenFile}: is empty`) });
    setup.folder.file('token', `\ufeff${await newToken()}\r\n`);
    await expectRead(source);
  });

  it.each<[what: string, auth: () => VaultConfig['auth'], problem: RegExp]>([
    [
      'the token file',
      () => ({ method: 'token', tokenFile: setup.folder.file('token', 'plänted') }),
      /token: has characters that are not printable ASCII/,
    ],
    [
      'the configured token',
      () => ({ method: 'token', token: new Secret('planted token') }),
      /\(the configured token has a blank \(U\+0020\) within it/,
    ],
  ])('names %s that no header can have, and sends nothing', async (_what, auth, problem) => {
    expect(await problemOf(open(auth()).read(acme))).toBe('no-credentials');
    expect(setup.observed.problems).toEqual([expect.stringMatching(problem)]);
    expect(setup.observed.problems.join()).not.toContain('nted');
  });

  it.each([
    ['no auth at all', { auth: null }],
    ['an empty token', { auth: { client_token: '', lease_duration: 60, renewable: true } }],
    ['a lease that is no number', { auth: { client_token: 'x', lease_duration: '60', renewable: true } }],
  ])('does not accept a response with %s as a login', async (_name, body) => {
    const source = open(await setup.appRole());
    setup.vault.fail({ kind: 'json', body }, /login/);
    expect(await problemOf(source.read(acme))).toBe('invalid-response');
  });

  it('that Vault does not know is no sign of a missing secret', async () => {
    const source = open(await setup.appRole());
    setup.vault.fail({ kind: 'status', status: 404 }, /login/);
    await expect(source.read(acme)).rejects.toMatchObject({
      source: 'down',
      problem: 'Vault login failed: Vault has no such secret (HTTP 404)',
    });
  });
});

describe('the reported lease of a Vault token', () => {
  it('of a configured token that cannot be renewed is the one it was created with', async () => {
    const monthInSeconds = (30 * day) / second;
    const token = await newToken({ ttl: monthInSeconds, renewable: false });
    setup.clock.advance(15 * day);
    await started({ method: 'token', token: new Secret(token) });
    await advance(10 * day);
    expect(setup.observed.leases).toEqual([monthInSeconds, monthInSeconds]);
    expect(new Set(setup.observed.expiries).size).toBe(1);
    const warning = 'the configured Vault token expires at 2026-01-31T00:00:00.000Z; replace it';
    expect(setup.observed.problems).toEqual([warning, warning]);
  });

  it('of a configured token in its last second is not that of one that does not expire', async () => {
    const data = { ttl: 0, creation_ttl: 600, expire_time: '2026-01-01T00:00:00.5Z', renewable: false };
    setup.vault.fail({ kind: 'json', body: { data } }, /lookup-self/);
    await started({ method: 'token', token: new Secret('any') });
    expect(setup.observed.leases).toEqual([600]);
  });

  it('of the token of a file is shorter if the file has another token for a shorter time', async () => {
    const write = async (ttl: number) =>
      setup.folder.file('token', await newToken({ ttl, renewable: false }));
    await started({ method: 'token', tokenFile: await write(600) });
    setup.clock.advance(399 * second);
    await write(300);
    await advance(2 * second);
    expect(setup.observed.leases).toEqual([600, 300]);
  });

  it('of a configured token does not shrink with its last renewals, which warn', async () => {
    await started({ method: 'token', token: new Secret(await newToken({ explicit_max_ttl: 900 })) });
    expect(setup.observed.problems).toEqual([]);
    await advance(400 * second);
    await advance(400 * second);
    expect(setup.observed.leases).toEqual([600, 600, 600]);
    expect(setup.observed.problems[0]).toBe(
      'the configured Vault token expires at 2026-01-01T00:15:00.000Z; replace it',
    );
  });
});
