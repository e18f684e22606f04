import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { VaultConfig } from '../../src/config/schema.ts';
import type { KeySource } from '../../src/keys/key-source.ts';
import { VaultError } from '../../src/keys/vault/errors.ts';
import { connectVault } from '../../src/keys/vault/source.ts';
import { Secret } from '../../src/secret.ts';
import {
  acme,
  approleMount,
  controlKeys,
  problemOf,
  roleName,
  VaultTestEnvironment,
} from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const logins = /POST auth\/\w+\/login/;
const renewals = /POST auth\/token\/renew-self/;
const second = 1000;
const minute = 60 * second;

describe('the login to Vault', () => {
  let setup: VaultTestEnvironment;

  beforeEach(async () => {
    setup = await new VaultTestEnvironment().open();
    await setup.admin.put('gateway/sandbox/acme', { control_key: 'first' });
  });
  afterEach(() => setup.close());

  const open = (auth: VaultConfig['auth']): KeySource => setup.source({ auth });

  /** A source that has started and logged in without any read. */
  async function started(auth: VaultConfig['auth']): Promise<KeySource> {
    const source = open(auth);
    source.start();
    await until(() => source.ready(), 'it has logged in');
    return source;
  }

  async function wake(milliseconds: number, done: () => boolean, what: string): Promise<void> {
    setup.clock.advance(milliseconds);
    await until(done, what);
  }

  /** Each failed attempt is followed by one that is at most two seconds later. */
  async function expectRetries(count: number): Promise<void> {
    for (let attempt = 1; attempt <= count; attempt += 1) {
      await until(() => setup.clock.nextTimer !== undefined, 'the attempt has failed');
      expect(setup.vault.count(logins)).toBe(attempt);
      expect(setup.clock.nextTimer).toBeGreaterThanOrEqual(750);
      expect(setup.clock.nextTimer).toBeLessThanOrEqual(2 * second);
      setup.clock.advance(2 * second);
    }
  }

  it('happens once for concurrent requests', async () => {
    const source = open(await setup.appRole());
    const reads = Array.from({ length: 20 }, () => source.read(acme));
    expect((await Promise.all(reads)).map(controlKeys)).toEqual(reads.map(() => ['1:first']));
    expect(setup.vault.count(logins)).toBe(1);
    expect(setup.clock.nextTimer).toBeUndefined();
  });

  it('happens at the start, so that the first request does not wait for it', async () => {
    const source = open(await setup.appRole());
    expect(source.ready()).toBe(false);
    source.start();
    await until(() => source.ready(), 'it has logged in');
    expect(setup.vault.count(logins)).toBe(1);
    expect(setup.vault.count(/GET secret/)).toBe(0);
  });

  it('happens in the background as soon as Vault can be reached', async () => {
    const source = open(await setup.appRole());
    setup.vault.sealed = true;
    source.start();
    await until(() => setup.observed.problems.length === 1, 'the failure is reported');
    expect(setup.observed.problems[0]).toContain('Vault is sealed');
    setup.vault.heal();
    for (let waited = 0; waited < 10 && !source.ready(); waited += 1) {
      setup.clock.advance(10 * second);
      await until(() => source.ready() || setup.clock.nextTimer !== undefined, 'it has looked again');
    }
    expect(source.ready()).toBe(true);
  });

  it('is tried again within two seconds, as is a renewal', async () => {
    const nextTry = async (): Promise<number> => {
      await until(() => setup.clock.nextTimer !== undefined, 'it has tried');
      return setup.clock.nextTimer ?? Number.NaN;
    };
    const source = await started(await setup.appRole());
    setup.vault.fail({ kind: 'status', status: 500 }, /renew-self/);
    await wake(2400 * second, () => setup.vault.count(renewals) === 1, 'it has tried to renew');
    expect(await nextTry()).toBeLessThanOrEqual(2 * second);
    expect(await nextTry()).toBeGreaterThanOrEqual(second);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    expect(setup.vault.count(logins)).toBe(1);
  });

  it('is renewed at two thirds of the lease, with a tenth of jitter', async () => {
    for (const [random, expected] of [
      [0, 2160],
      [0.5, 2400],
      [1, 2640],
    ] as const) {
      const auth = await setup.appRole();
      const source = setup.source({ auth }, { random: () => random });
      source.start();
      await until(() => source.ready(), 'it has logged in');
      expect(setup.clock.nextTimer).toBe(expected * second);
      await source.stop();
    }
  });

  it.each([
    [7000, 'is renewed', [1, 1]],
    [5400, 'is repeated, since the renewal grants less than the whole lease', [1, 2]],
  ])('of which at most %d s are permitted %s', async (maximum, _what, expected) => {
    const settings = { token_policies: [roleName], token_ttl: 3600, token_max_ttl: maximum };
    await setup.admin.role(approleMount, roleName, settings);
    const source = await started(await setup.appRole());
    await wake(2400 * second, () => setup.observed.expiries.length === 2, 'it has renewed or logged in');
    expect([setup.vault.count(renewals), setup.vault.count(logins)]).toEqual(expected);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    expect(setup.observed.problems).toEqual([]);
  });

  it('has one renewal due, also after another login', async () => {
    const source = await started(await setup.appRole());
    setup.vault.world().tokens.revokeAll();
    setup.clock.advance(minute);
    await source.read(acme);
    await wake(2400 * second, () => setup.vault.count(renewals) > 0, 'it has renewed');
    await until(() => setup.observed.expiries.length === 4, 'the new expiry is reported');
    expect(setup.vault.count(renewals)).toBe(1);
  });

  it('is repeated if renewal is denied', async () => {
    const source = await started(await setup.appRole());
    setup.vault.world().tokens.revokeAll();
    await wake(2400 * second, () => setup.vault.count(logins) === 2, 'it has logged in again');
    await until(() => setup.observed.expiries.length === 2, 'the new expiry is reported');
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    expect(setup.vault.count(logins)).toBe(2);
  });

  it('keeps its token while Vault cannot renew it, and uses up no secret ID', async () => {
    const source = await started(await setup.appRole());
    setup.vault.fail({ kind: 'status', status: 500 }, /renew-self/);
    await wake(2400 * second, () => setup.vault.count(renewals) === 1, 'it has tried to renew');
    setup.vault.heal();
    for (let waited = 0; waited < 60 && setup.vault.count(renewals) < 2; waited += 1) {
      setup.clock.advance(second);
      await until(() => setup.clock.nextTimer !== undefined, 'it has looked again');
    }
    await until(() => setup.observed.expiries.length === 2, 'it has renewed');
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    expect(setup.vault.count(logins)).toBe(1);
  });

  it('is repeated after the token has expired, even if no renewal was tried', async () => {
    const source = open(await setup.appRole());
    await source.read(acme);
    setup.clock.advance(3601 * second);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
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
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    set = 0;
    setup.clock.advance(minute);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    expect(setup.vault.count(logins)).toBe(2);
    setup.vault.world().tokens.revokeAll();
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('is repeated once if a revoked token is denied to many requests', async () => {
    const source = open(await setup.appRole());
    await source.read(acme);
    setup.vault.world().tokens.revokeAll();
    setup.clock.advance(minute);
    const reads = Array.from({ length: 20 }, () => source.read(acme));
    expect((await Promise.all(reads)).map(controlKeys)).toEqual(reads.map(() => ['1:first']));
    expect(setup.vault.count(logins)).toBe(2);
  });

  it('also serves a request that learns late that the old token was denied', async () => {
    const vault = setup.closeAtEnd(
      connectVault(setup.config({ auth: await setup.appRole() }), setup.options),
    );
    const denied = new VaultError('denied', { status: 403 });
    const waiting = Promise.withResolvers<never>();
    const tokens: Secret[] = [];
    const work = (outcome: Promise<never>) => (token: Secret) => {
      tokens.push(token);
      return tokens.length <= 2 ? outcome : Promise.resolve('done');
    };
    const late = vault.tokens.withToken(work(waiting.promise));
    await until(() => tokens.length === 1, 'the first has its token');
    setup.clock.advance(minute);
    setup.vault.world().tokens.revokeAll();
    expect(await vault.tokens.withToken(work(Promise.reject(denied)))).toBe('done');
    waiting.reject(denied);
    expect(await late).toBe('done');
    expect(setup.vault.count(logins)).toBe(2);
    expect(tokens[3]).toBe(tokens[2]);
  });

  describe('when it stops', () => {
    const tokens = () => setup.vault.world().tokens.count;

    it('is revoked', async () => {
      const source = await started(await setup.appRole());
      expect(tokens()).toBe(1);
      await source.stop();
      expect(tokens()).toBe(0);
    });

    it('is revoked also if it has just begun', async () => {
      const source = open(await setup.appRole());
      source.start();
      await source.stop();
      expect(setup.vault.count(logins)).toBe(1);
      expect(tokens()).toBe(0);
    });

    it('is not revoked if the token was configured', async () => {
      const token = await setup.admin.token({ policies: [roleName], ttl: 600 });
      const source = await started({ method: 'token', token: new Secret(token) });
      await source.stop();
      expect(tokens()).toBe(1);
      expect(setup.vault.count(/revoke/)).toBe(0);
    });

    it('lets an in-flight read finish first', async () => {
      const source = await started(await setup.appRole());
      const reading = source.read(acme);
      await source.stop();
      expect(controlKeys(await reading)).toEqual(['1:first']);
      expect(tokens()).toBe(0);
    });

    it('lets an in-flight read of several versions finish with the same token', async () => {
      for (const control_key of ['second', 'third'])
        await setup.admin.put('gateway/sandbox/acme', { control_key });
      const source = await started(await setup.appRole());
      const reading = source.read(acme);
      await source.stop();
      expect(controlKeys(await reading)).toEqual(['3:third', '2:second', '1:first']);
      expect(tokens()).toBe(0);
      expect(setup.vault.count(logins)).toBe(1);
    });

    it('waits two seconds at most for a Vault that hangs', async () => {
      const source = await started(await setup.appRole());
      setup.vault.fail({ kind: 'black-hole' });
      const begun = performance.now();
      await source.stop();
      expect(performance.now() - begun).toBeLessThan(2000);
    });
  });

  it('stops without pending timers', async () => {
    const source = await started(await setup.appRole());
    void source.stop();
    expect(setup.clock.nextTimer).toBeUndefined();
  });

  it('is reported every five minutes while it fails, and at once when it fails anew', async () => {
    await setup.admin.role(approleMount, roleName, { token_policies: [roleName], token_ttl: 60 });
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
    it('is not tried again for a long while, and reported once', async () => {
      const source = open(await setup.appRole('wrong'));
      source.start();
      await until(() => setup.observed.problems.length === 1, 'the rejection is reported');
      for (let waited = 0; waited < 20; waited += 1) {
        setup.clock.advance(second);
        expect(await problemOf(source.read(acme))).toBe('backing-off');
      }
      expect(setup.vault.count(logins)).toBe(1);
      expect(setup.observed.problems).toEqual([
        'Vault login failed: Vault rejected the credentials (HTTP 400, approle)',
      ]);
    });

    it('is tried again after half a minute, then backs off up to five minutes', async () => {
      const source = open(await setup.appRole('wrong'));
      for (let waited = 0; waited < 3600; waited += 5) {
        await problemOf(source.read(acme));
        setup.clock.advance(5 * second);
      }
      expect(setup.vault.count(logins)).toBeGreaterThan(12);
      expect(setup.vault.count(logins)).toBeLessThan(24);
    });

    it('is tried again at once if the secret ID in the file changed', async () => {
      const source = open(await setup.appRole('wrong'));
      expect(await problemOf(source.read(acme))).toBe('bad-credentials');
      await setup.appRole();
      expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    });

    it('is tried again at once if the role ID in its file changed', async () => {
      const roleIdFile = setup.folder.file('role-id', 'wrong');
      const secretIdFile = setup.folder.file('own', await setup.admin.secretId(approleMount, roleName));
      const source = open({ method: 'approle', mount: approleMount, roleIdFile, secretIdFile });
      expect(await problemOf(source.read(acme))).toBe('bad-credentials');
      setup.folder.file('role-id', setup.roleId);
      expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    });

    it('is tried again in the background if the secret ID in the file changed', async () => {
      const source = open(await setup.appRole('wrong'));
      source.start();
      await until(() => setup.clock.nextTimer !== undefined, 'the rejection is known');
      await setup.appRole();
      await wake(2 * second, () => source.ready(), 'it has logged in');
      expect(setup.vault.count(logins)).toBe(2);
      expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    });

    it('happens if a secret ID is used up', async () => {
      await setup.admin.role(approleMount, roleName, { token_policies: [roleName], secret_id_num_uses: 1 });
      const source = open(await setup.appRole());
      await source.read(acme);
      setup.clock.advance(2 * 3600 * second);
      expect(await problemOf(source.read(acme))).toBe('bad-credentials');
    });
  });

  it.each([
    ['an outage', { kind: 'status', status: 503 } as const, 'sealed'],
    ['a missing mount', { kind: 'status', status: 404, errors: ['no handler'] } as const, 'no-route'],
  ])(
    'that fails because of %s is tried once a second, however many requests come',
    async (_why, fault, kind) => {
      const source = open(await setup.appRole());
      setup.vault.fail(fault, /login/);
      setup.vault.seen.length = 0;
      for (let waited = 0; waited < 60; waited += 1) {
        const problems = await Promise.all(Array.from({ length: 5 }, () => problemOf(source.read(acme))));
        expect(problems).toEqual(problems.map(() => kind));
        setup.clock.advance(second / 2);
        const failed = await source.read(acme).catch((error: unknown) => error);
        expect(failed).toMatchObject({ source: 'down', cause: { kind: 'backing-off', cause: { kind } } });
        setup.clock.advance(second / 2);
      }
      expect(setup.vault.seen).toHaveLength(60);
      setup.vault.heal();
      expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    },
  );

  it('waits as long as Vault wants to be left alone', async () => {
    const source = open(await setup.appRole());
    setup.vault.fail({ kind: 'status', status: 429, headers: { 'Retry-After': '60' } }, /login/);
    expect(await problemOf(source.read(acme))).toBe('throttled');
    setup.vault.heal();
    setup.clock.advance(59 * second);
    expect(await problemOf(source.read(acme))).toBe('backing-off');
    setup.clock.advance(second);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it.each([
    ['with 5xx', { kind: 'status', status: 500 } as const],
    ['by a closed connection', { kind: 'reset' } as const],
  ])('that fails %s for long is repeated within two seconds each time', async (_how, fault) => {
    const source = open(await setup.appRole());
    setup.vault.fail(fault);
    source.start();
    await expectRetries(30);
    setup.vault.heal();
    await wake(2 * second, () => source.ready(), 'it has logged in');
  });

  it('to Kubernetes auth, whose API server is away, is repeated within two seconds each time', async () => {
    const { kubernetes } = setup.vault.world();
    kubernetes.role('proxy', { policies: [roleName], ttl: 600 });
    const jwtFile = setup.folder.file('jwt', 'service-account-token');
    const source = open({ method: 'kubernetes', mount: 'kubernetes', role: 'proxy', jwtFile });
    source.start();
    await expectRetries(30);
    kubernetes.accept('service-account-token');
    await wake(2 * second, () => source.ready(), 'it has logged in');
  });

  describe('whose token has a limited number of uses', () => {
    it('is refused and says what to do, backs off, and leaves no token behind', async () => {
      const role = { token_policies: [roleName], token_num_uses: 1000 };
      await setup.admin.role(approleMount, roleName, role);
      const source = open(await setup.appRole());
      expect(await problemOf(source.read(acme))).toBe('limited-uses');
      for (let waited = 0; waited < 20; waited += 1) {
        setup.clock.advance(second);
        expect(await problemOf(source.read(acme))).toBe('backing-off');
      }
      expect(setup.vault.count(logins)).toBe(1);
      expect(setup.vault.world().tokens.count).toBe(0);
      expect(setup.observed.problems).toEqual([
        expect.stringMatching(
          /^Vault login failed: .*limited number of uses; set token_num_uses of its role to 0/,
        ),
      ]);
      await setup.admin.role(approleMount, roleName, { ...role, token_num_uses: 0 });
      setup.clock.advance(10 * second);
      expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    });

    it('is refused if the token was configured, and not revoked', async () => {
      const token = await setup.admin.token({ policies: [roleName], ttl: 600, num_uses: 1000 });
      const source = open({ method: 'token', token: new Secret(token) });
      setup.vault.seen.length = 0;
      expect(await problemOf(source.read(acme))).toBe('limited-uses');
      setup.clock.advance(20 * second);
      expect(await problemOf(source.read(acme))).toBe('backing-off');
      expect(setup.vault.seen.map(({ target }) => target)).toEqual(['auth/token/lookup-self']);
      expect(setup.vault.world().tokens.count).toBe(1);
    });
  });

  it('reads the service account token each time', async () => {
    const { kubernetes } = setup.vault.world();
    kubernetes.role('signer', { policies: [roleName], ttl: 600 });
    kubernetes.accept('jwt-1');
    const jwtFile = setup.folder.file('jwt', 'jwt-1');
    const source = open({ method: 'kubernetes', mount: 'kubernetes', role: 'signer', jwtFile });
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    kubernetes.reject('jwt-1');
    kubernetes.accept('jwt-2');
    setup.folder.file('jwt', 'jwt-2');
    setup.clock.advance(601 * second);
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('is rejected for a service account token that the cluster does not know', async () => {
    setup.vault.world().kubernetes.role('signer', { policies: [roleName], ttl: 600 });
    const jwtFile = setup.folder.file('jwt', 'forged');
    const source = open({ method: 'kubernetes', mount: 'kubernetes', role: 'signer', jwtFile });
    expect(await problemOf(source.read(acme))).toBe('bad-credentials');
  });

  it('names the file that is missing or empty, and recovers when it exists', async () => {
    const tokenFile = `${setup.folder.path}/token`;
    const source = open({ method: 'token', tokenFile });
    expect(await problemOf(source.read(acme))).toBe('no-credentials');
    expect(setup.observed.problems).toEqual([
      `Vault login failed: the Vault credentials cannot be read (cannot read ${tokenFile})`,
    ]);
    setup.folder.file('token', ' \n');
    await expect(source.read(acme)).rejects.toMatchObject({
      problem: `Vault login failed: the Vault credentials cannot be read (${tokenFile} is empty)`,
    });
    setup.folder.file('token', await setup.admin.token({ policies: [roleName], ttl: 600 }));
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it.each<[string, string | Buffer, RegExp]>([
    [
      'JSON of an agent',
      '{"token":"planted","accessor":"a","wrapped_accessor":"b"}',
      /token looks like JSON with a wrapped token/,
    ],
    [
      'a response of Vault',
      '{"request_id":"r","auth":{"client_token":"planted"}}',
      /token looks like JSON, such as a response of Vault/,
    ],
    ['two lines', 'planted\nplanted\n', /token has more than one line/],
    ['UTF-16', Buffer.from('\ufeffplanted\r\n', 'utf16le'), /token is in UTF-16/],
    ['a no-break space', 'planted\u00a0', /token ends with a no-break space/],
    ['a letter that no header can have', 'plänted', /token has characters that are not printable ASCII/],
  ])('names the token file and what is in it, and sends nothing: %s', async (_name, content, problem) => {
    const source = open({ method: 'token', tokenFile: setup.folder.file('token', content) });
    expect(await problemOf(source.read(acme))).toBe('no-credentials');
    expect(setup.observed.problems).toEqual([expect.stringMatching(problem)]);
    expect(setup.observed.problems.join()).not.toContain('planted');
  });

  it('reads a token file with a byte order mark and CR LF', async () => {
    const token = await setup.admin.token({ policies: [roleName], ttl: 600 });
    const source = open({ method: 'token', tokenFile: setup.folder.file('token', `\ufeff${token}\r\n`) });
    expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
  });

  it('names the configured token if no header can have it', async () => {
    const source = open({ method: 'token', token: new Secret('planted token') });
    expect(await problemOf(source.read(acme))).toBe('no-credentials');
    expect(setup.observed.problems).toEqual([
      expect.stringContaining('(the configured token has a blank (U+0020) within it'),
    ]);
  });

  it('waits as long as Retry-After says', async () => {
    const source = open(await setup.appRole());
    setup.vault.fail({ kind: 'status', status: 429, headers: { 'Retry-After': '90' } });
    source.start();
    await until(() => setup.clock.nextTimer !== undefined, 'the failure is known');
    for (let waited = 0; waited < 85; waited += 1) {
      setup.clock.advance(second);
      await problemOf(source.read(acme));
    }
    expect(setup.vault.count(logins)).toBe(1);
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

  it('warns when a configured token is about to expire', async () => {
    const token = new Secret(
      await setup.admin.token({ policies: [roleName], ttl: 600, explicit_max_ttl: 900 }),
    );
    await started({ method: 'token', token });
    expect(setup.observed.problems).toEqual([]);
    await wake(400 * second, () => setup.observed.expiries.length === 2, 'it has renewed');
    await wake(400 * second, () => setup.observed.problems.length > 0, 'the expiry is reported');
    expect(setup.observed.problems[0]).toBe(
      'the configured Vault token expires at 2026-01-01T00:15:00.000Z; replace it',
    );
  });
});
