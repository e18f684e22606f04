import { createServer as createTlsServer } from 'node:https';
import { createServer as createSilentServer, type Server } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
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
import { issuerKey, startOidcServer } from '../support/oidc-server.ts';
import { spansIn } from '../support/otlp.ts';
import { writeKeys } from '../support/service.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { startReceiver, tracingTo } from '../support/traced.ts';

const starts = harness();

const setup = new KeysTestEnvironment();
let token: string;

interface Check {
  readonly check: string;
  readonly subject: string;
  readonly result: string;
  readonly detail: string;
  readonly milliseconds?: number;
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
  it('has a row for the login to Vault, for each granted key and for each gateway, with its time', async () => {
    const { code, stdout: out } = await online(configWith([grant(['*'], 'acme')]));
    expect(code).toBe(0);
    const time = '\\d+ ms +';
    const expected = [
      'CHECK +SUBJECT +RESULT +TIME +DETAIL',
      `vault +http://127\\.0\\.0\\.1:\\d+ +ok +${time}logged in; token expires at \\S+Z`,
      `key +sandbox/acme control_key +ok +${time}version 1, \\d+s old`,
      `key +sandbox/acme private_key +ok +${time}version 1, \\d+s old, RSA 2048 bits`,
      `gateway +sandbox +ok +${time}${setup.gateway.url}: connected without TLS`,
    ];
    expect(out.replaceAll(/\n {2,}/g, ' ')).toMatch(new RegExp(`^${expected.join('\n')}$`));
    expect(Math.max(...out.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(100);
  });

  it('logs in to Vault once for all of that, and reads a login once for both of its keys', async () => {
    await setup.admin.enable('auth', 'approle', { type: 'approle' });
    const roleId = await setup.admin.role('approle', 'proxy', { token_policies: ['proxy'] });
    const secretIdFile = setup.folder.file('secret-id', await setup.admin.secretId('approle', 'proxy'));
    const auth = { method: 'approle', roleId, secretIdFile } as const;
    const keys = { source: 'vault', vault: { address: setup.admin.address, auth } } as const;
    setup.vault.seen.length = 0;
    const { code, rows } = await checks(configWith([grant(['*'], 'acme')], { keys }));
    expect([code, keyRows(rows).length]).toEqual([0, 2]);
    expect(setup.vault.count(/auth\/approle\/login/)).toBe(1);
    expect(setup.vault.count(/^GET secret\/data/)).toBe(1);
  });

  it('sends an empty export to the receiver of traces; one that does not accept it is a warning', async () => {
    const receiver = await startReceiver(starts);
    const good = await checks(configWith([], { tracing: tracingTo(receiver) }));
    expect(receiver.requests.map(spansIn)).toEqual([[]]);
    const rowOf = ({ rows }: typeof good) => rows.find((row) => row.check === 'tracing');
    expect(rowOf(good)).toMatchObject({ result: 'ok', detail: `${receiver.url}: accepts traces` });
    receiver.respond = (response) => response.writeHead(404).end();
    const bad = await checks(configWith([], { tracing: tracingTo(receiver) }));
    expect(rowOf(bad)).toMatchObject({
      result: 'warning',
      detail: `${receiver.url}: status 404 instead of 200`,
    });
    expect(bad.code).toBe(good.code);
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
    expect(rows.filter((row) => row.check === 'jwt-issuer')).toEqual([
      expect.objectContaining({
        subject: 'idp',
        result: 'ok',
        detail: `${issuer.url}: 2 public keys (P-256, RSA)`,
      }),
      expect.objectContaining({
        subject: 'other',
        result: 'failed',
        detail: `${issuer.url}/nothing: status 404 instead of 200`,
      }),
    ]);
  });

  it('reads only the kinds of key that the granted operations require', async () => {
    await setup.forget();
    await setup.put({ control_key: oldControlKey });
    expect(await checks(configWith([grant(['manager-balance'], 'acme')]))).toMatchObject({ code: 0 });
    const { code, rows } = await checks(configWith([grant(['order-status'], 'acme')]));
    expect(code).toBe(1);
    expect(keyRows(rows)).toEqual([
      ['sandbox/acme private_key', 'failed', 'the login has no key of this kind'],
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

  it('fails for a kind of key that only a previous version has', async () => {
    await setup.put({ control_key: oldControlKey });
    const { code, rows } = await checks(configWith([grant(['order-status'], 'acme')]));
    expect(code).toBe(1);
    expect(keyRows(rows)[0]?.[2]).toBe(
      'version 2: the newest version lacks the field private_key (its fields: control_key)',
    );
  });

  it('fails if the newest version was deleted', async () => {
    await setup.put({ control_key: newControlKey, private_key: oldKey });
    await setup.admin.deleteVersions('gateway/sandbox/acme', [2]);
    const { code, rows } = await checks(configWith([grant(['manager-balance'], 'acme')]));
    expect(code).toBe(1);
    expect(keyRows(rows)[0]?.[2]).toContain(
      'the newest version was deleted; the one before it is used until',
    );
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

  it('fails for a login without keys, and for an unusable current version', async () => {
    await setup.put({ control_key: '', private_key: oldKey });
    const { code, rows } = await checks(configWith([grant(['manager-balance'], 'acme', 'absent')]));
    expect(code).toBe(1);
    expect(keyRows(rows)).toEqual([
      ['sandbox/acme control_key', 'failed', 'version 2: the control key (field control_key) is empty'],
      ['sandbox/absent control_key', 'failed', 'the login has no keys'],
    ]);
  });

  it.each<[string, object, string]>([
    [
      'private-key',
      { 'private-key': oldKey, note: 'x' },
      'the secret has no field private_key but private-key, which is not read; rename it (its fields: private-key, note)',
    ],
    [
      'PRIVATE_KEY',
      { PRIVATE_KEY: oldKey },
      'the secret has no field private_key but PRIVATE_KEY, which is not read',
    ],
    [
      'data',
      { data: { private_key: oldKey } },
      'the secret has no field private_key but one like it below data, where it is not read; store the fields directly in the secret (its fields: data)',
    ],
    [
      'anything else',
      { pem: oldKey, '7f1c2c5e-8a35': 'x' },
      'the login has no key of this kind (its fields: pem, 1 more)',
    ],
  ])('names the fields of a secret that has the key in the field %s', async (name, fields, detail) => {
    const login = `fields-${name.toLowerCase().replaceAll(/[^a-z]/g, '-')}`;
    await setup.put(fields, login);
    const status = { environments: ['sandbox'], operations: ['order-status'], logins: [login] };
    const { code, rows } = await checks(configWith([status]));
    expect(code).toBe(1);
    expect(keyRows(rows)).toEqual([
      [`sandbox/${login} private_key`, 'failed', expect.stringContaining(detail)],
    ]);
  });

  it.each(['secret/data', 'secret/metadata', 'secret/data/gateway'])(
    'says what the mount %s is called in Vault',
    async (mount) => {
      for (const tokenFile of ['proxy-token', 'token']) {
        const auth = { method: 'token', tokenFile } as const;
        const vault = { address: setup.admin.address, mount, auth };
        const allow = [grant(['manager-balance'], 'acme')];
        const { code, rows } = await checks(configWith(allow, { keys: { source: 'vault', vault } }));
        expect(code).toBe(1);
        const detail = expect.stringContaining(`(it is "${mount}", and Vault's mount is "secret")`);
        expect(keyRows(rows)).toEqual([['sandbox/acme control_key', 'failed', detail]]);
      }
    },
  );

  it.each<[string, string | Buffer, RegExp]>([
    [
      'JSON',
      '{"token":"planted-token","wrapped_accessor":"a"}',
      /json-token looks like JSON with a wrapped token/,
    ],
    ['UTF-16', Buffer.from('\ufeffplanted-token', 'utf16le'), /json-token is in UTF-16/],
    ['a line end too many', 'planted-token\n\n', /json-token ends with a line end/],
  ])('names the token file, and not the network, if that holds %s', async (_name, content, detail) => {
    setup.folder.file('json-token', content);
    const { code, rows } = await checks(configWith([grant(['manager-balance'], 'acme')], {}, 'json-token'));
    expect(code).toBe(1);
    expect(rows.find(({ check: name }) => name === 'vault')?.detail).toMatch(detail);
    expect(JSON.stringify(rows)).not.toMatch(/cannot be reached|ERR_|planted-token/);
  });

  it.each([
    ['a blank at its end', 'ends with a blank (U+0020); remove it', `${oldControlKey} `],
    ['a tab before it', 'begins with a tab (U+0009); remove it', `\t${oldControlKey}`],
    ['two line feeds', 'ends with a line end (U+000A); remove it', `${oldControlKey}\n\n`],
    ['a no-break space', 'ends with a no-break space (U+00A0); remove it', `${oldControlKey}\u00a0`],
    ['JSON around it', 'looks like JSON; store the value alone', `{"control_key":"${oldControlKey}"}`],
  ])('fails for a control key with %s', async (_name, fault, text) => {
    await setup.put({ control_key: text }, 'odd');
    const { rows } = await checks(configWith([grant(['manager-balance'], 'odd')]));
    const detail = expect.stringMatching(/^version \d+: the control key \(field control_key\) /);
    expect(keyRows(rows)).toEqual([['sandbox/odd control_key', 'failed', detail]]);
    expect(keyRows(rows)[0]?.[2]).toContain(fault);
  });

  it('skips the logins of a wildcard if Vault does not permit listing', async () => {
    const { code, rows } = await checks(configWith([grant(['manager-balance'], 'acme', 'ac*')]));
    expect(code).toBe(0);
    expect(keyRows(rows)).toEqual([
      ['sandbox/acme control_key', 'ok', 'version 1, 0s old'],
      [
        'sandbox/ac* control_key',
        'not-checked',
        'wildcard grant; the key source does not permit listing logins',
      ],
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

  it('fails with the reason if Vault rejects the login, and then reads no key', async () => {
    setup.folder.file('bad-token', 'no-such-token');
    setup.vault.seen.length = 0;
    const { code, rows } = await checks(configWith([grant(['*'], 'acme')], {}, 'bad-token'));
    expect(code).toBe(1);
    expect(rows.map((row) => [row.check, row.result])).toEqual([
      ['vault', 'failed'],
      ['gateway', 'ok'],
    ]);
    expect(rows[0]?.detail).toContain('Vault rejected the credentials (HTTP 403, token)');
    expect(setup.vault.count(/secret\//)).toBe(0);
  });

  it('fails if Vault is unreachable or sealed', async () => {
    const auth = { method: 'token', tokenFile: 'token' } as const;
    const keys = { source: 'vault', vault: { address: 'http://127.0.0.1:1', auth } } as const;
    const gone = await checks(configWith([], { keys }));
    expect([gone.code, gone.rows[0]?.detail]).toEqual([
      1,
      'Vault login failed: Vault cannot be reached (connection refused: ECONNREFUSED)',
    ]);
    setup.vault.sealed = true;
    const sealed = await checks(configWith([]));
    expect([sealed.code, sealed.rows[0]?.detail]).toEqual([
      1,
      'Vault login failed: Vault is sealed (HTTP 503)',
    ]);
  });

  it('reports a policy that denies reading a key', async () => {
    const poor = await setup.admin.token({ policies: [], ttl: '1h' });
    setup.folder.file('poor-token', poor);
    const { code, rows } = await checks(configWith([grant(['manager-balance'], 'acme')], {}, 'poor-token'));
    expect(code).toBe(1);
    expect(keyRows(rows)).toEqual([
      [
        'sandbox/acme control_key',
        'failed',
        'Vault denies reading secret/data/gateway/sandbox/acme; its policy must permit it',
      ],
    ]);
  });

  it('reads keys also where the token may not ask what it may read', async () => {
    setup.vault.fail({ kind: 'status', status: 403 }, /capabilities-self/);
    const { code, rows } = await checks(configWith([grant(['manager-balance'], 'acme', 'ac*')]));
    expect(code).toBe(0);
    expect(keyRows(rows).map(([, result]) => result)).toEqual(['ok', 'not-checked']);
  });

  it('fails for a wildcard grant that the policy does not cover, also if it may not list logins', async () => {
    const path = { 'secret/data/gateway/sandbox/ac*': { capabilities: ['read'] } };
    await setup.admin.request('POST', 'sys/policies/acl/some', { policy: JSON.stringify({ path }) });
    setup.folder.file('some-token', await setup.admin.token({ policies: ['some'], ttl: '1h' }));
    const check = (login: string) =>
      checks(configWith([grant(['manager-balance'], login)], {}, 'some-token'));
    expect(await check('acme')).toMatchObject({ code: 0 });
    expect(await check('ac*')).toMatchObject({ code: 0 });
    const { code, rows } = await check('*');
    expect(code).toBe(1);
    expect(keyRows(rows)).toEqual([
      [
        'sandbox/* control_key',
        'failed',
        'Vault denies reading secret/data/gateway/sandbox/some-login; its policy must permit it',
      ],
    ]);
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
    const secrets = [oldControlKey, newControlKey, rootToken, token, 'no-such-token'];
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
    expect(results[0]?.err).toContain('--online requires a FILE');
  });
});

describe('the gateway row', () => {
  const portOf = (server: { address(): unknown }) =>
    z.object({ port: z.number() }).parse(server.address()).port;
  const silent: Server = createSilentServer();
  const ca = new Ca(setup.folder.path, 'gateway-ca');
  const otherCa = new Ca(setup.folder.path, 'other-ca');
  const { cert, key } = ca.issue('gateway');
  const tls = createTlsServer({ cert, key });

  beforeAll(async () => {
    for (const server of [silent, tls]) {
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    }
  });
  afterAll(() => [silent, tls].forEach((server) => server.close()));

  async function gatewayRow(settings: Partial<Changed['environments'] & object>['sandbox'] & object) {
    const { code, rows } = await checks(configWith([], { environments: { sandbox: settings } }));
    return { code, ...rows.find((row) => row.check === 'gateway') };
  }

  it('shows the protocol and the expiry of the certificate', async () => {
    const baseUrl = `https://127.0.0.1:${portOf(tls)}`;
    const row = await gatewayRow({ baseUrl, product: 'gw', caFile: ca.file });
    expect(row).toMatchObject({ code: 0, result: 'ok' });
    expect(row.detail).toMatch(/: TLSv1\.3, certificate valid until \d{4}-\d\d-\d\d$/);
  });

  it('connects with the TLS versions that the proxy may use', async () => {
    const old = createTlsServer({ cert, key, maxVersion: 'TLSv1.2' });
    await new Promise<void>((resolve) => old.listen(0, '127.0.0.1', resolve));
    const settings = { baseUrl: `https://127.0.0.1:${portOf(old)}`, product: 'gw', caFile: ca.file };
    const rows = [await gatewayRow(settings), await gatewayRow({ ...settings, minVersion: '1.3' })];
    old.close();
    expect(rows).toMatchObject([
      { code: 0, detail: expect.stringContaining(': TLSv1.2, ') },
      { code: 1, result: 'failed' },
    ]);
  });

  it('fails for a certificate of an untrusted CA', async () => {
    const baseUrl = `https://127.0.0.1:${portOf(tls)}`;
    const row = await gatewayRow({ baseUrl, product: 'gw', caFile: otherCa.file });
    expect(row).toMatchObject({ code: 1, result: 'failed' });
    expect(row.detail).toMatch(/: no connection: UNABLE_TO_VERIFY_LEAF_SIGNATURE$/);
  });

  it('fails if the connection is refused', async () => {
    const row = await gatewayRow({ baseUrl: 'http://127.0.0.1:1', product: 'gw' });
    expect(row).toMatchObject({ code: 1, detail: 'http://127.0.0.1:1: no connection: ECONNREFUSED' });
  });

  it('fails after the connect timeout if the TLS handshake stalls', async () => {
    const baseUrl = `https://127.0.0.1:${portOf(silent)}`;
    const timeouts = { connect: '200ms' };
    const row = await gatewayRow({ baseUrl, product: 'gw', timeouts });
    expect(row).toMatchObject({ code: 1, detail: `${baseUrl}: no connection within 0.2 s` });
  });

  it('names the egress proxy, and which hop failed', async () => {
    const egress = await startEgressProxy();
    try {
      const baseUrl = `https://127.0.0.1:${portOf(tls)}`;
      const settings = { baseUrl, product: 'gw', caFile: ca.file, egressProxy: { url: egress.url } };
      const way = `${baseUrl} through ${egress.url}`;
      const row = await gatewayRow(settings);
      expect(row).toMatchObject({ code: 0, result: 'ok' });
      expect(row.detail).toContain(`${way}: TLSv1.3, certificate valid until `);
      expect(egress.heads).toHaveLength(1);
      egress.behavior = { responds: 'HTTP/1.1 407 x\r\n\r\n' };
      expect((await gatewayRow(settings)).detail).toBe(
        `${way}: no connection: egress proxy did not accept the credentials: status 407`,
      );
      egress.behavior = 'tunnel';
      expect((await gatewayRow({ ...settings, caFile: otherCa.file })).detail).toBe(
        `${way}: no connection: UNABLE_TO_VERIFY_LEAF_SIGNATURE`,
      );
    } finally {
      await egress.close();
    }
  });

  describe.each(['TLSv1.2', 'TLSv1.3'] as const)('with a client certificate and %s', (version) => {
    const strict = createTlsServer(
      { cert, key, ca: ca.cert, requestCert: true, minVersion: version, maxVersion: version },
      (_, response) => response.writeHead(404).end(),
    );
    const lenient = createTlsServer(
      { cert, key, requestCert: true, rejectUnauthorized: false, minVersion: version, maxVersion: version },
      (_, response) => response.writeHead(400).end(),
    );
    beforeAll(async () => {
      for (const server of [strict, lenient])
        await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    });
    afterAll(() => [strict, lenient].forEach((server) => server.close()));

    const rowWith = async (by: Ca, server: typeof strict) => {
      const { certFile, keyFile } = by.issue(`client-${version}`);
      const baseUrl = `https://127.0.0.1:${portOf(server)}`;
      return gatewayRow({ baseUrl, product: 'gw', caFile: ca.file, certFile, keyFile });
    };

    it('finds one that the gateway rejects', async () => {
      const accepted = await rowWith(ca, strict);
      expect(accepted).toMatchObject({ code: 0, result: 'ok' });
      expect(accepted.detail).toMatch(/; responds with the client certificate \(HTTP status 404\)$/);
      const rejected = await rowWith(otherCa, strict);
      expect(rejected).toMatchObject({ code: 1, result: 'failed' });
      expect(rejected.detail).toMatch(
        /: no connection: ECONNRESET$|after it received the client certificate$/,
      );
    });

    it('says what a status of 400 can mean, with which nginx rejects one', async () => {
      const row = await rowWith(otherCa, lenient);
      expect(row.detail).toContain(
        '(HTTP status 400, which can mean that it rejects the client certificate)',
      );
    });
  });
});
