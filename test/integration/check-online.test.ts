import { createServer as createTlsServer } from 'node:https';
import { createServer as createSilentServer } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { check } from '../../src/cli/check/check.ts';
import { runCommandHere } from '../support/cli.ts';
import { startEgressProxy } from '../support/egress-proxy.ts';
import { harness } from '../support/harness.ts';
import {
  KeysTestEnvironment,
  newControlKey,
  oldControlKey,
  oldKey,
} from '../support/keys-test-environment.ts';
import { listen } from '../support/listening.ts';
import { issuerKey, startOidcServer } from '../support/oidc-server.ts';
import { writeKeys } from '../support/service.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { rootToken } from '../support/stub-vault/state.ts';

const starts = harness();

const setup = new KeysTestEnvironment();
let token: string;

interface Check {
  readonly check: string;
  readonly subject: string;
  readonly result: string;
  readonly detail: string;
}

beforeAll(async () => {
  await setup.open();
  const proxy = { path: { 'secret/data/gateway/*': { capabilities: ['read'] } } };
  await setup.admin.request('POST', 'sys/policies/acl/proxy', { policy: JSON.stringify(proxy) });
  token = await setup.admin.token({ policies: ['proxy'], ttl: '1h' });
  setup.folder.file('proxy-token', token);
});
afterAll(() => setup.close());
beforeEach(async () => {
  setup.vault.heal();
  await setup.forget();
  await setup.put({ control_key: oldControlKey, private_key: oldKey });
});

type Grant = { environments: string[]; operations: string[]; logins: string[] };
type Changed = NonNullable<Parameters<KeysTestEnvironment['writeConfig']>[1]>;

function configWith(allow: Grant[], changed: Changed = {}, tokenFile = 'proxy-token'): string {
  return setup.writeConfig('online.yaml', {
    keys: { source: 'vault', vault: { address: setup.admin.address, auth: { method: 'token', tokenFile } } },
    callers: [{ name: 'billing', credentials: [{ anonymous: true }], allow }],
    ...changed,
  });
}

const grant = (operations: string[], ...logins: string[]): Grant => ({
  environments: ['*'],
  operations,
  logins,
});

async function online(config: string, ...options: string[]) {
  const { code, out, err } = await runCommandHere(check, '--online', '--config', config, ...options);
  setup.printed.push(out, err);
  return { code, out: out + err, stdout: out };
}

async function checks(config: string): Promise<{ code: number | null; rows: Check[] }> {
  const { code, stdout } = await online(config, '--json');
  const { ok, checks: rows }: { ok: boolean; checks: Check[] } = JSON.parse(stdout);
  expect(ok).toBe(code === 0);
  return { code, rows };
}

const keyRows = (rows: readonly Check[]) =>
  rows
    .filter((row) => row.check === 'key')
    .map(({ subject, result, detail }) => [subject, result, detail.replace(/\d+s old/, '0s old')]);

describe('check --online', () => {
  it('has a row for the login to Vault, for each granted key and for each gateway', async () => {
    const { code, stdout: out } = await online(configWith([grant(['*'], 'acme')]));
    expect(code).toBe(0);
    const expected = [
      'CHECK +SUBJECT +RESULT +DETAIL',
      `vault +http://127\\.0\\.0\\.1:\\d+ +ok +logged in; token expires at \\S+Z`,
      `key +sandbox/acme control_key +ok +version 1, \\d+s old`,
      `key +sandbox/acme private_key +ok +version 1, \\d+s old, RSA 2048 bits`,
      `gateway +sandbox +ok +${setup.gateway.url}: connected without TLS`,
    ];
    expect(out.replaceAll(/\n {2,}/g, ' ')).toMatch(new RegExp(`^${expected.join('\n')}$`));
    expect(Math.max(...out.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(100);
  });

  it('logs in to Vault once for all of that', async () => {
    await setup.admin.enable('auth', 'approle', { type: 'approle' });
    const roleId = await setup.admin.role('approle', 'proxy', { token_policies: ['proxy'] });
    const secretIdFile = setup.folder.file('secret-id', await setup.admin.secretId('approle', 'proxy'));
    const auth = { method: 'approle', roleId, secretIdFile } as const;
    const keys = { source: 'vault', vault: { address: setup.admin.address, auth } } as const;
    setup.vault.seen.length = 0;
    const { code, rows } = await checks(configWith([grant(['*'], 'acme')], { keys }));
    expect([code, keyRows(rows).length]).toEqual([0, 2]);
    expect(setup.vault.count(/auth\/approle\/login/)).toBe(1);
  });

  it('fetches the keys of each JWT issuer', async () => {
    const issuer = await startOidcServer({ keys: [issuerKey('a'), issuerKey('b', 'RS256')] });
    const jwtIssuers = {
      idp: { issuer: issuer.url, audience: 'countersign' },
      other: { issuer: 'x', audience: 'countersign', jwks: { url: `${issuer.url}/nothing` } },
    };
    const { code, rows } = await checks(configWith([], { jwtIssuers }));
    await issuer.close();
    expect(code).toBe(1);
    const issuers = rows.filter((row) => row.check === 'jwt-issuer');
    expect(issuers.map(({ subject, result, detail }) => [subject, result, detail])).toEqual([
      ['idp', 'ok', `${issuer.url}: 2 public keys (P-256, RSA)`],
      ['other', 'failed', `${issuer.url}/nothing: status 404 instead of 200`],
    ]);
  });

  it('reads only the keys of the environments that are granted, for the operations that they have', async () => {
    const refund = { path: '/api/v4/return', signature: 'RSA-SHA256', loginFrom: 'body' } as const;
    const environments = {
      sandbox: { baseUrl: setup.gateway.url, product: 'gw' },
      other: { baseUrl: 'http://127.0.0.1:1', product: 'gw', operations: { refund } },
    };
    const allow = [
      { environments: ['sandbox'], operations: ['manager-balance', 'refund'], logins: ['acme'] },
    ];
    const { rows } = await checks(configWith(allow, { environments }));
    expect(keyRows(rows)).toEqual([['sandbox/acme control_key', 'ok', 'version 1, 0s old']]);
  });

  it('warns of max_versions=1 of the secret or the mount, if it may read the metadata', async () => {
    const config = (tokenFile: string) => configWith([grant(['manager-balance'], 'acme')], {}, tokenFile);
    await setup.admin.request('POST', 'secret/metadata/gateway/sandbox/acme', { max_versions: 1 });
    const { code, rows } = await checks(config('token'));
    expect(code).toBe(0);
    expect(keyRows(rows)).toEqual([
      ['sandbox/acme control_key', 'warning', expect.stringMatching(/^version 1, .*max_versions=1/)],
    ]);
    expect(keyRows((await checks(config('proxy-token'))).rows)[0]?.[1]).toBe('ok');
    await setup.admin.request('POST', 'secret/metadata/gateway/sandbox/acme', { max_versions: 0 });
    await setup.admin.request('POST', 'secret/config', { max_versions: 1 });
    expect(keyRows((await checks(config('token'))).rows)[0]?.[1]).toBe('ok');
    await setup.put({ control_key: newControlKey });
    expect(keyRows((await checks(config('token'))).rows)[0]?.[1]).toBe('warning');
    await setup.admin.request('POST', 'secret/config', { max_versions: 0 });
  });

  it.each<[what: string, versions: readonly object[], operation: string, detail: string]>([
    ['a login without keys', [], 'manager-balance', 'the login has no keys'],
    ['another kind only', [{ control_key: 'k' }], 'order-status', 'the login has no key of this kind'],
    [
      'a kind that only a previous version has',
      [{ control_key: 'k', private_key: oldKey }, { control_key: 'k' }],
      'order-status',
      'version 2: the newest version lacks the field private_key (its fields: control_key)',
    ],
    [
      'an unusable current version',
      [{ control_key: 'k' }, { control_key: '' }],
      'manager-balance',
      'version 2: the control key (field control_key) is empty',
    ],
  ])('fails for %s', async (what, versions, operation, detail) => {
    const login = what.replaceAll(' ', '-');
    for (const version of versions) await setup.put(version, login);
    const { code, rows } = await checks(configWith([grant([operation], login)]));
    expect(code).toBe(1);
    expect(keyRows(rows)).toEqual([[expect.any(String), 'failed', expect.stringContaining(detail)]]);
  });

  it('fails if the newest version was deleted', async () => {
    await setup.put({ control_key: newControlKey, private_key: oldKey });
    await setup.admin.deleteVersions('gateway/sandbox/acme', [2]);
    const { code, rows } = await checks(configWith([grant(['manager-balance'], 'acme')]));
    expect(code).toBe(1);
    const detail = 'the newest version was deleted; the one before it is used until';
    expect(keyRows(rows)[0]?.[2]).toContain(detail);
  });

  it('skips the logins of a wildcard if Vault does not permit listing', async () => {
    const { code, rows } = await checks(configWith([grant(['manager-balance'], 'acme', 'ac*')]));
    expect(code).toBe(0);
    const wildcard = 'wildcard grant; the key source does not permit listing logins';
    expect(keyRows(rows)).toEqual([
      ['sandbox/acme control_key', 'ok', 'version 1, 0s old'],
      ['sandbox/ac* control_key', 'not-checked', wildcard],
    ]);
  });

  it('checks each login of a wildcard once if it may list them', async () => {
    await setup.put({ control_key: newControlKey }, 'acme-2');
    await setup.put({ private_key: 'broken' }, 'other');
    const config = configWith([grant(['*'], 'acme', 'acme*'), grant(['*'], 'nologin*')], {}, 'token');
    const { code, rows } = await checks(config);
    expect(code).toBe(0);
    expect(keyRows(rows)).toEqual([
      ['sandbox/acme control_key', 'ok', 'version 1, 0s old'],
      ['sandbox/acme private_key', 'ok', 'version 1, 0s old, RSA 2048 bits'],
      ['sandbox/acme-2 control_key', 'ok', 'version 1, 0s old'],
      ['sandbox/acme-2 private_key', 'not-checked', 'the login has no key of this kind'],
      ['sandbox/nologin* control_key', 'not-checked', 'no login matches'],
      ['sandbox/nologin* private_key', 'not-checked', 'no login matches'],
    ]);
    expect(await checks(configWith([grant(['transfer'], '*')], {}, 'token'))).toMatchObject({ code: 1 });
  });

  it.each([
    ['a rejected token', 'no-such-token', undefined, /Vault rejected the credentials \(HTTP 403, token\)/],
    [
      'a file with JSON',
      '{"token":"planted-token","wrapped_accessor":"a"}',
      undefined,
      /bad-token: looks like JSON, such as a response of Vault/,
    ],
    [
      'nobody at the address',
      'any',
      'http://127.0.0.1:1',
      /cannot be reached \(connection refused: ECONNREFUSED\)$/,
    ],
    ['a sealed Vault', 'any', undefined, /^Vault login failed: Vault is sealed \(HTTP 503\)$/],
  ])('fails with the reason for %s, and then reads no key', async (what, content, address, detail) => {
    const tokenFile = setup.folder.file('bad-token', content);
    const vault = { address: address ?? setup.admin.address, auth: { method: 'token', tokenFile } as const };
    setup.vault.sealed = what === 'a sealed Vault';
    setup.vault.seen.length = 0;
    const { code, rows } = await checks(
      configWith([grant(['*'], 'acme')], { keys: { source: 'vault', vault } }),
    );
    expect(code).toBe(1);
    expect(rows).toMatchObject([
      { check: 'vault', result: 'failed', detail: expect.stringMatching(detail) },
      { check: 'gateway', result: 'ok' },
    ]);
    expect(setup.vault.count(/secret\//)).toBe(0);
  });

  it('reads keys also where the token may not ask what it may read', async () => {
    setup.vault.fail({ kind: 'status', status: 403 }, /capabilities-self/);
    const { code, rows } = await checks(configWith([grant(['manager-balance'], 'acme', 'ac*')]));
    expect(code).toBe(0);
    expect(keyRows(rows).map(([, result]) => result)).toEqual(['ok', 'not-checked']);
  });

  it('fails for a grant that the policy does not cover, also a wildcard if it may not list logins', async () => {
    const path = { 'secret/data/gateway/sandbox/ac*': { capabilities: ['read'] } };
    await setup.admin.request('POST', 'sys/policies/acl/some', { policy: JSON.stringify({ path }) });
    setup.folder.file('some-token', await setup.admin.token({ policies: ['some'], ttl: '1h' }));
    const check = (login: string) =>
      checks(configWith([grant(['manager-balance'], login)], {}, 'some-token'));
    for (const login of ['acme', 'ac*']) expect(await check(login)).toMatchObject({ code: 0 });
    for (const [login, named] of [
      ['other', 'other'],
      ['*', 'some-login'],
    ] as const) {
      const { code, rows } = await check(login);
      const detail = `Vault denies reading secret/data/gateway/sandbox/${named}; its policy must permit it`;
      expect([code, keyRows(rows)]).toEqual([1, [[`sandbox/${login} control_key`, 'failed', detail]]]);
    }
  });

  it('checks keys in a directory in the same way', async () => {
    const directory = `${setup.folder.path}/keys`;
    writeKeys(directory, 'sandbox', 'acme', { controlKey: oldControlKey });
    const keys = { source: 'directory', directory } as const;
    const found = await checks(configWith([grant(['manager-balance'], '*')], { keys }));
    expect(found).toMatchObject({ code: 0 });
    expect(found.rows.map(({ check: kind, subject, result }) => [kind, subject, result])).toEqual([
      ['directory', directory, 'ok'],
      ['key', 'sandbox/acme control_key', 'ok'],
      ['gateway', 'sandbox', 'ok'],
    ]);
    const absent = { source: 'directory', directory: `${directory}-absent` } as const;
    expect((await checks(configWith([], { keys: absent }))).rows[0]).toMatchObject({
      result: 'failed',
      detail: 'the directory is not readable',
    });
  });

  it('shows no secret', () => {
    const text = setup.printed.join('\n');
    expect(text).toContain('sandbox/acme');
    const secrets = [oldControlKey, newControlKey, rootToken, token, 'no-such-token', 'planted-token'];
    expect(secrets.filter((secret) => text.includes(secret))).toEqual([]);
    expect(text).not.toMatch(/BEGIN/);
  });

  it('prints notices beside the results', async () => {
    const callers = [
      { name: 'trial', mode: 'dry-run' as const, credentials: [{ anonymous: true as const }] },
    ];
    const argv = ['--online', configWith([], { callers }), '--json'];
    const { code, out, err } = await runCommandHere(check, ...argv);
    expect([code, JSON.parse(out)]).toMatchObject([0, { ok: true }]);
    expect(err).toMatch(/callers\[0\]\.mode: lets through every request.*\n(.*\n)?\d notices?$/);
  });

  it('requires a valid configuration', async () => {
    const wrong = [['--online'], ['--json'], ['--online', '--config', setup.folder.file('bad.yaml', 'a: 1')]];
    const results = await Promise.all(wrong.map((argv) => runCommandHere(check, ...argv)));
    expect(results.map(({ code }) => code)).toEqual([2, 2, 2]);
    expect(results[0]?.err).toContain('FILE is required');
  });
});

describe('the gateway row', () => {
  const [ca, otherCa] = [new Ca(setup.folder.path, 'gateway-ca'), new Ca(setup.folder.path, 'other-ca')];
  const { cert, key } = ca.issue('gateway');
  const caFile = ca.file;

  /** The base URL of such a server, with a status of its responses. */
  async function listenTls(options: TlsOptions = {}, status = 404): Promise<string> {
    const server = createTlsServer({ cert, key, ...options }, (_, response) =>
      response.writeHead(status).end(),
    );
    return `https://127.0.0.1:${starts.closing(await listen(server)).port}`;
  }

  async function gatewayRow(settings: Partial<Changed['environments'] & object>['sandbox'] & object) {
    const { code, rows } = await checks(configWith([], { environments: { sandbox: settings } }));
    return { code, ...rows.find((row) => row.check === 'gateway') };
  }
  const withCa = (baseUrl: string, more: object = {}) =>
    gatewayRow({ baseUrl, product: 'gw', caFile, ...more });

  it('shows the protocol, of the versions that the proxy may use, and the expiry of the certificate', async () => {
    const [current, old] = [await listenTls(), await listenTls({ maxVersion: 'TLSv1.2' })];
    const row = await withCa(current);
    expect(row).toMatchObject({ code: 0, result: 'ok' });
    expect(row.detail).toMatch(/: TLSv1\.3, certificate valid until \d{4}-\d\d-\d\d$/);
    const detail = expect.stringContaining(': TLSv1.2, ');
    expect(await withCa(old)).toMatchObject({ code: 0, detail });
    expect(await withCa(old, { minVersion: '1.3' })).toMatchObject({ code: 1, result: 'failed' });
  });

  it('fails without a connection: another CA, nobody who listens, no TLS handshake in time', async () => {
    const secure = await listenTls();
    const silent = `https://127.0.0.1:${starts.closing(await listen(createSilentServer())).port}`;
    for (const [baseUrl, more, why] of [
      [secure, { caFile: otherCa.file }, 'no connection: UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
      ['https://127.0.0.1:1', {}, 'no connection: ECONNREFUSED'],
      [silent, { timeouts: { connect: '200ms' } }, 'no connection within 0.2 s'],
    ] as const) {
      const detail = `${baseUrl}: ${why}`;
      expect(await withCa(baseUrl, more)).toMatchObject({ code: 1, result: 'failed', detail });
    }
  });

  it('names the egress proxy, and which hop failed', async () => {
    const egress = starts.closing(await startEgressProxy());
    const baseUrl = await listenTls();
    const egressProxy = { url: egress.url };
    const way = `${baseUrl} through ${egress.url}`;
    const row = await withCa(baseUrl, { egressProxy });
    expect(row).toMatchObject({ code: 0, result: 'ok' });
    expect(row.detail).toContain(`${way}: TLSv1.3, certificate valid until `);
    expect(egress.heads).toHaveLength(1);
    egress.behavior = { responds: 'HTTP/1.1 407 x\r\n\r\n' };
    expect((await withCa(baseUrl, { egressProxy })).detail).toBe(
      `${way}: no connection: egress proxy did not accept the credentials: status 407`,
    );
  });

  it.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'finds a client certificate that a gateway with %s rejects',
    async (version) => {
      const only = { minVersion: version, maxVersion: version, requestCert: true };
      const strict = await listenTls({ ...only, ca: ca.cert });
      const lenient = await listenTls({ ...only, rejectUnauthorized: false }, 400);
      const rowWith = (by: Ca, baseUrl: string) => {
        const { certFile, keyFile } = by.issue(`client-${version}`);
        return withCa(baseUrl, { certFile, keyFile });
      };
      expect(await rowWith(ca, strict)).toMatchObject({
        code: 0,
        detail: expect.stringMatching(/; responds with the client certificate \(HTTP status 404\)$/),
      });
      expect(await rowWith(otherCa, strict)).toMatchObject({
        code: 1,
        detail: expect.stringMatching(
          /: no connection: ECONNRESET$|after it received the client certificate$/,
        ),
      });
      // With which nginx rejects one.
      const status400 = '(HTTP status 400, which can mean that it rejects the client certificate)';
      expect((await rowWith(otherCa, lenient)).detail).toContain(status400);
    },
  );
});
