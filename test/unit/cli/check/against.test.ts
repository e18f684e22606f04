import { mkdirSync } from 'node:fs';
import { afterAll, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { parse } from 'yaml';
import { decide } from '../../../../src/auth/authorize.ts';
import { allowedMore } from '../../../../src/cli/check/against.ts';
import { check } from '../../../../src/cli/check/check.ts';
import type { Config } from '../../../../src/config/schema.ts';
import { builtInOperations } from '../../../../src/gateway/operations.ts';
import { matchesPattern } from '../../../../src/identifiers.ts';
import { runCommandHere } from '../../../support/cli.ts';
import { type ConfigInput, configFor, everything } from '../../../support/config.ts';
import { Folder } from '../../../support/folder.ts';
import { configOf, digest, rows as rowsOf } from '../../config/checking.ts';

const environment = { baseUrl: 'https://gateway.example', product: 'gw' };
const credentials = [{ tokenSha256: digest }];
const grant = { environments: ['sandbox'], operations: ['transfer'], logins: ['acme'] };
const billing = (...allow: (typeof grant)[]) => ({ callers: [{ name: 'billing', credentials, allow }] });

function configWith(config: Partial<ConfigInput>): Config {
  return configOf(JSON.stringify(configFor('https://gateway.example', config)));
}

const folder = new Folder();
afterAll(() => folder.remove());

/** A checkout with a configuration and other files. */
function checkout(name: string, config: object, files: Readonly<Record<string, string>> = {}): string {
  mkdirSync(folder.at(name), { recursive: true });
  for (const [file, text] of Object.entries(files)) folder.file(`${name}/${file}`, text);
  const keys = { source: 'directory', directory: 'keys' };
  const whole = { environments: { sandbox: environment }, keys, ...config };
  return folder.file(`${name}/countersign.yaml`, JSON.stringify(whole));
}

/** Each row of `--json` in a line: what the new file allows and the old one did not. */
async function rows(now: string, before: string): Promise<string[]> {
  const { code, out } = await runCommandHere(check, '--json', '--no-file-checks', '--against', before, now);
  const found: Record<string, object[]> = JSON.parse(out);
  const lines = Object.values(found).flatMap((list) =>
    list.map((row) =>
      Object.values(row)
        .map((cell) => (typeof cell === 'string' ? cell : JSON.stringify(cell)))
        .join(' '),
    ),
  );
  expect(code).toBe(lines.length === 0 ? 0 : 3);
  return lines;
}

const more = (now: object, before: object) => rows(checkout('new', now), checkout('old', before));

const token = JSON.stringify(credentials[0]);
const sandbox = (fields: object) => ({ environments: { sandbox: { ...environment, ...fields } } });
const tls = { certFile: 'c', keyFile: 'k', clientCaFile: 'ca', clientCrlFile: 'crl' };
const issuer = { issuer: 'https://idp.example', audience: 'countersign' };
const idp = (fields: object) => ({ jwtIssuers: { idp: { ...issuer, ...fields } } });

describe('of what the new file allows and the old one did not, is listed', () => {
  it.each<[string, object, object, string[]]>([
    [
      'a caller, with its credential',
      billing(grant),
      {},
      [`billing ${token}`, 'billing sandbox transfer acme'],
    ],
    [
      'every request of a dry run',
      { callers: [{ name: 'billing', mode: 'dry-run', credentials }] },
      billing(grant),
      Object.keys(builtInOperations).map((operation) => `billing sandbox ${operation} *`),
    ],
    [
      'an environment of a wildcard',
      {
        ...billing({ ...grant, environments: ['*'] }),
        environments: { sandbox: environment, live: { baseUrl: 'https://live.example', product: 'gw' } },
      },
      billing({ ...grant, environments: ['*'] }),
      ['billing live transfer acme'],
    ],
    [
      'an operation that a wildcard reaches',
      { ...billing(everything), operations: { pay: { ...builtInOperations['transfer'], path: '/api/pay' } } },
      billing(everything),
      ['billing sandbox pay *'],
    ],
    [
      'a query that is a payment, and a payment that is a query',
      { operations: { 'order-status': { readOnly: false }, transfer: { readOnly: true } } },
      {},
      [
        'environments.sandbox.operations.order-status.readOnly true false',
        'environments.sandbox.operations.transfer.readOnly false true',
      ],
    ],
    [
      'another audience and key set of an issuer',
      idp({ audience: 'other', jwks: { url: 'https://idp.example/keys' } }),
      idp({}),
      [
        'jwtIssuers.idp.audience countersign other',
        'jwtIssuers.idp.jwks none {"url":"https://idp.example/keys"}',
      ],
    ],
    [
      'a list of revoked certificates that is gone, and another CA of clients',
      { proxy: { tls: { ...tls, clientCrlFile: undefined, clientCaFile: '/pod/other' } } },
      { proxy: { tls } },
      ['proxy.tls.clientCaFile ca /pod/other', 'proxy.tls.clientCrlFile crl none'],
    ],
    [
      'anonymous callers of the network',
      { proxy: { host: '::', allowAnonymous: true } },
      {},
      ['proxy.host 127.0.0.1 ::', 'proxy.allowAnonymous false true'],
    ],
    [
      'nothing of limits, log, and what no caller may use',
      {
        log: { level: 'debug' },
        proxy: { maxConnections: 5, timeouts: { body: '3s' } },
        operations: { transfer: { parameters: { comment: { maxLength: 3 } } } },
        ...idp({}),
      },
      { operations: { transfer: { parameters: { comment: { maxLength: 2 } } } } },
      [],
    ],
  ])('%s', async (_, now, before, expected) => {
    expect(await more(now, before)).toEqual(expected);
  });

  it.each(rowsOf`
    { caFile: ca.pem }                      || {} || caFile none ca.pem
    { baseUrl: "https://other.example", product: other } || {} || baseUrl https://gateway.example https://other.example && product gw other
    { operations: { transfer: { path: "/api/v4/pay/{endpoint}" } } } || {} || operations.transfer.path /api/v4/transfer/{endpoint} /api/v4/pay/{endpoint}
    { egressProxy: { url: "https://proxy.example", username: u, password: marked } } || {} || egressProxy none {"url":"https://proxy.example","username":"u","password":{}}
    { endpoints: { "1": beta, "3": acme } } || { endpoints: { "1": acme, "2": acme } } || endpoints.1 acme beta && endpoints.2 acme none
  `)('of an environment with %s after one with %s: %s', async (now, before, expected) => {
    const found = await more(sandbox(parse(now)), sandbox(parse(before)));
    expect(found.map((row) => row.replace('environments.sandbox.', '')).join(' && ')).toBe(expected);
  });

  it.each<[object, object, boolean]>([
    [{ subject: 'a-1' }, { subject: 'a-*' }, false],
    [{ subject: 'a-*' }, { subject: 'a-1' }, true],
    [{ subject: 'a', claims: { team: 'pay' } }, { subject: 'a' }, false],
    [{ subject: 'a' }, { subject: 'a', claims: { team: 'pay' } }, true],
    [{ claims: { team: 'pay' } }, { subject: 'a*' }, true],
  ])('a JWT with %j after %j: %s', (now, before, isMore) => {
    const withJwt = (jwt: object) =>
      configOf(
        JSON.stringify({
          ...configFor('https://gateway.example'),
          ...idp({}),
          callers: [{ name: 'billing', credentials: [{ jwt: { issuer: 'idp', ...jwt } }], allow: [] }],
        }),
      );
    expect(allowedMore(withJwt(now), withJwt(before)).credentials).toHaveLength(isMore ? 1 : 0);
  });

  it('a credential that was one of another caller', async () => {
    const of = (name: string, ...of: object[]) => ({ name, credentials: of, allow: [] });
    const uri = { certificateUri: 'spiffe://a/b' };
    const served = (...callers: object[]) => ({ proxy: { tls }, callers });
    const before = served(of('one', uri), of('two', ...credentials));
    expect(await more(served(of('one', ...credentials)), before)).toEqual([`one ${token}`]);
    expect(await more(served(of('two', ...credentials, uri)), before)).toEqual([
      `two ${JSON.stringify(uri)}`,
    ]);
  });

  it('what the files of each checkout say: operations, and CAs and keys of issuers with the same name', async () => {
    const config = {
      ...billing(everything),
      ...idp({ jwks: { file: 'keys.json' } }),
      operationsFile: 'operations.yaml',
      ...sandbox({ caFile: './ca.pem', certFile: 'cert.pem', keyFile: 'key.pem' }),
    };
    const operations = (text: string) => `operations: { pay: { path: /api/pay, ${text} } }`;
    const pay = 'signature: HMAC-SHA1, loginFrom: header';
    const files = {
      'ca.pem': 'one',
      'keys.json': '{}',
      'key.pem': 'own',
      'operations.yaml': operations(pay),
    };
    const old = checkout('old', config, files);
    const same = { ...files, 'key.pem': 'renewed' };
    expect(await rows(checkout('new', config, same), old)).toEqual([]);
    const others = {
      'ca.pem': 'two',
      'keys.json': '{"keys":[]}',
      'operations.yaml': `${operations(`${pay}, readOnly: true`).slice(0, -1)}, refund: { path: /api/refund, ${pay} } }`,
    };
    expect(await rows(checkout('new', config, others), old)).toEqual([
      'billing sandbox refund *',
      expect.stringMatching(/^jwtIssuers\.idp\.jwks\.file SHA-256 \w{64} SHA-256 \w{64}$/),
      'environments.sandbox.operations.pay.readOnly false true',
      expect.stringMatching(/^environments\.sandbox\.caFile SHA-256 \w{64} SHA-256 \w{64}$/),
    ]);
  });
});

it('a login is in a row if and only if the caller may use it now and might not', () => {
  const names = ['a', 'aa', 'ab', 'b', 'ba'];
  const patterns = fc.array(fc.constantFrom('*', 'a*', 'aa*', 'b*', ...names), {
    minLength: 1,
    maxLength: 3,
  });
  const operations = fc.constantFrom<string[]>(['*'], ['transfer'], ['manager-balance', 'order-status']);
  const allow = fc.array(
    fc.record({ environments: fc.constant<string[]>(['*']), operations, logins: patterns }),
    { maxLength: 2 },
  );
  const mode = fc.constantFrom('enforce', 'enforce', 'dry-run');
  const configurations = fc
    .record({ allow, mode })
    .map((own) => configWith({ callers: [{ name: 'c', credentials, ...own }] }));
  const allows = ({ callers: [caller] }: Config, operation: string, login: string) =>
    caller !== undefined && decide(caller, { environment: 'sandbox', operation, login }) !== 'denied';
  fc.assert(
    fc.property(configurations, configurations, (now, before) => {
      const { requests } = allowedMore(now, before);
      for (const operation of ['transfer', 'manager-balance']) {
        const isMore = (login: string) => allows(now, operation, login) && !allows(before, operation, login);
        const found = requests.filter((row) => row.operation === operation);
        const logins = [...names, 'c', 'ac', 'aac', 'bac'];
        for (const login of logins.filter(isMore))
          expect(found.some((row) => matchesPattern(row.login, login))).toBe(true);
        for (const row of found)
          expect(logins.filter((login) => matchesPattern(row.login, login)).some(isMore)).toBe(true);
      }
    }),
    { seed: 1, numRuns: 60 },
  );
});

describe('countersign check --against', () => {
  it('exits with 0 if nothing more is allowed', async () => {
    const file = checkout('old', billing(grant));
    // The notice: its key directory does not exist.
    const nothing = { code: 0, out: 'allows nothing more', err: expect.stringContaining('1 notice') };
    expect(await runCommandHere(check, '--against', file, file)).toEqual(nothing);
  });

  it('exits with 3 otherwise, and prints what is', async () => {
    const anonymous = { anonymous: true };
    const callers = [{ name: 'billing', credentials: [...credentials, anonymous], allow: [grant] }];
    const now = checkout('new', { callers, ...sandbox({ product: 'pay' }) });
    const { code, out } = await runCommandHere(check, '--against', checkout('old', billing()), now);
    expect({ code, out: out.split('\n').map((line) => line.replaceAll(/ +/g, ' ')) }).toEqual({
      code: 3,
      out: [
        'CALLER NEW CREDENTIAL',
        'billing {"anonymous":true}',
        'CALLER ENVIRONMENT OPERATION LOGIN',
        'billing sandbox transfer acme',
        'SETTING BEFORE NOW',
        'environments.sandbox.product gw pay',
      ],
    });
  });

  it('compares and prints values from variables that are not set by their names, or says which to set', async () => {
    const withVariables = (fields: object) => ({
      callers: [{ name: 'billing', credentials: [{ tokenSha256: '${COUNTERSIGN_TEST_A}' }], allow: [] }],
      ...fields,
    });
    const [one, other] = [
      checkout('old', withVariables({})),
      checkout('new', withVariables(sandbox({ baseUrl: '${COUNTERSIGN_TEST_B}' }))),
    ];
    expect(await rows(one, one)).toEqual([]);
    const none = checkout('none', {});
    expect(await rows(one, none)).toEqual(['billing {"tokenSha256":"${COUNTERSIGN_TEST_A}"}']);
    const { out } = await runCommandHere(check, '--no-file-checks', '--against', none, one);
    expect(out).toBe('CALLER   NEW CREDENTIAL\nbilling  {"tokenSha256":"${COUNTERSIGN_TEST_A}"}');
    const problem = `${other}:1: environments.sandbox.baseUrl: requires the environment variable COUNTERSIGN_TEST_B, which is not set: set it to a value that fits\n1 problem`;
    const against = ['--no-file-checks', '--against'];
    expect(await runCommandHere(check, ...against, one, other)).toMatchObject({ code: 2, out: problem });
    expect(await runCommandHere(check, ...against, other, one)).toMatchObject({
      code: 2,
      err: expect.stringContaining(problem),
    });
  });

  it('exits with 2 if the old file is invalid', async () => {
    const old = folder.file('invalid.yaml', 'keys: {}\n');
    const { code, err } = await runCommandHere(check, '--against', old, checkout('new', {}));
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(`${old}:1: `) });
  });
});
