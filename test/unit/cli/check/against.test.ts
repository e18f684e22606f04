import { afterAll, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { decide } from '../../../../src/auth/authorize.ts';
import { allowedMore } from '../../../../src/cli/check/against.ts';
import { check } from '../../../../src/cli/check/check.ts';
import type { Config } from '../../../../src/config/schema.ts';
import { builtInOperations } from '../../../../src/gateway/operations.ts';
import { matchesPattern } from '../../../../src/identifiers.ts';
import { runCommandHere } from '../../../support/cli.ts';
import { type ConfigInput, configFor, everything } from '../../../support/config.ts';
import { Folder } from '../../../support/folder.ts';
import { configOf, digest } from '../../config/checking.ts';

const credentials = [{ tokenSha256: digest }];
const grant = { environments: ['sandbox'], operations: ['transfer'], logins: ['acme'] };
const billing = (...allow: (typeof grant)[]) => ({ callers: [{ name: 'billing', credentials, allow }] });

function configWith(config: Partial<ConfigInput>, endpoints: Record<string, string> = {}): Config {
  return configOf(JSON.stringify(configFor('https://gateway.example', config, { endpoints })));
}

/** `CALLER ENVIRONMENT OPERATION LOGIN ENDPOINT` of each request, and `CALLER CREDENTIAL`. */
function more(now: Config, before: Config): string[] {
  const { credentials, requests } = allowedMore(now, before);
  return [
    ...credentials.map(({ caller, credential }) => `${caller} ${Object.keys(credential).join()}`),
    ...requests.map((one) =>
      [one.caller, one.environment, one.operation, one.login, one.endpoint ?? 'any'].join(' '),
    ),
  ];
}

describe('of what the new file allows and the old one did not, is listed', () => {
  it.each<[string, Partial<ConfigInput>, Partial<ConfigInput>, string[]]>([
    ['nothing of the same file', billing(grant), billing(grant), []],
    ['nothing of fewer grants', billing(grant), billing(grant, everything), []],
    [
      'a login',
      billing({ ...grant, logins: ['acme', 'beta'] }),
      billing(grant),
      ['billing sandbox transfer beta any'],
    ],
    [
      'an operation',
      billing({ ...grant, operations: ['transfer', 'manager-balance'] }),
      billing(grant),
      ['billing sandbox manager-balance acme any'],
    ],
    [
      'a prefix, once for all logins that it stands for',
      billing({ ...grant, logins: ['acme*', 'acme-1', 'beta'] }),
      billing({ ...grant, logins: ['acme', 'acme-*', 'beta'] }),
      ['billing sandbox transfer acme* any'],
    ],
    [
      'nothing of a prefix within another one',
      billing({ ...grant, logins: ['acme-*', 'acme'] }),
      billing({ ...grant, logins: ['ac*'] }),
      [],
    ],
    [
      'a caller, with its credential',
      {
        callers: [
          ...billing(grant).callers,
          { name: 'b', credentials: [{ anonymous: true }], allow: [grant] },
        ],
      },
      billing(grant),
      ['b anonymous', 'b sandbox transfer acme any'],
    ],
    [
      'every request of a dry run',
      { callers: [{ name: 'billing', mode: 'dry-run', credentials }] },
      billing(everything),
      [],
    ],
    [
      'every request of a dry run that was none',
      { callers: [{ name: 'billing', mode: 'dry-run', credentials }] },
      billing(grant),
      Object.keys(builtInOperations).map((operation) => `billing sandbox ${operation} * any`),
    ],
    [
      'an operation of a wildcard that has another path now',
      { ...billing(everything), operations: { transfer: { path: '/api/v4/pay/{endpoint}' } } },
      billing(everything),
      ['billing sandbox transfer * any'],
    ],
    [
      'nothing of the name of an operation or of a product alone',
      {
        ...billing(everything),
        environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'other' } },
        operations: {},
      },
      billing(everything),
      [],
    ],
  ])('%s', (_, now, before, expected) => {
    expect(more(configWith(now), configWith(before))).toEqual(expected);
  });

  it('an environment of a wildcard', () => {
    const config = configWith(billing({ ...grant, environments: ['*'] }));
    const { sandbox } = config.environments;
    const now = {
      ...config,
      environments: { ...config.environments, ...(sandbox && { production: sandbox }) },
    };
    expect(more(now, config)).toEqual(['billing production transfer acme any']);
    expect(more(config, now)).toEqual([]);
  });

  it('an endpoint that leads to another login, or to none', () => {
    const all = billing({ ...grant, logins: ['*'] });
    const two = billing({ ...grant, logins: ['acme', 'beta'] });
    const [to, mapped, unmapped] = ['billing sandbox transfer', { '77': 'acme' }, {}];
    expect(more(configWith(all, { '77': 'beta' }), configWith(all, mapped))).toEqual([`${to} beta 77`]);
    expect(more(configWith(all, unmapped), configWith(all, mapped))).toEqual([`${to} * 77`]);
    expect(more(configWith(two, unmapped), configWith(two, mapped))).toEqual([`${to} beta 77`]);
    expect(more(configWith(all, mapped), configWith(all, unmapped))).toEqual([]);
    expect(more(configWith(billing(grant), { '77': 'beta' }), configWith(billing(grant), mapped))).toEqual(
      [],
    );
  });

  const jwtOf = (jwt: object, issuer: object = {}) =>
    configOf(
      JSON.stringify({
        ...configFor('https://gateway.example'),
        jwtIssuers: { idp: { issuer: 'https://idp.example', audience: 'countersign', ...issuer } },
        callers: [{ name: 'billing', credentials: [{ jwt: { issuer: 'idp', ...jwt } }], allow: [] }],
      }),
    );

  it.each<[object, object, object, boolean]>([
    [{ subject: 'a-1' }, { subject: 'a-*' }, {}, false],
    [{ subject: 'a-*' }, { subject: 'a-1' }, {}, true],
    [{ subject: 'a', claims: { team: 'pay' } }, { subject: 'a' }, {}, false],
    [{ subject: 'a' }, { subject: 'a', claims: { team: 'pay' } }, {}, true],
    [{ claims: { team: 'pay' } }, { subject: 'a*' }, {}, true],
    [{ subject: 'a' }, { subject: 'a' }, { leeway: '1s' }, false],
    [{ subject: 'a' }, { subject: 'a' }, { audience: 'other' }, true],
    [{ subject: 'a' }, { subject: 'a' }, { jwks: { url: 'https://idp.example/keys' } }, true],
  ])('a JWT with %j after %j, of the issuer with %j: %s', (now, before, issuer, isMore) => {
    expect(more(jwtOf(now, issuer), jwtOf(before))).toEqual(isMore ? ['billing jwt'] : []);
  });

  it('a credential that was one of another caller', () => {
    const of = (name: string, ...of: object[]) => ({ name, credentials: of, allow: [] });
    const tls = { tls: { certFile: 'c', keyFile: 'k', clientCaFile: 'ca' } };
    const config = (...callers: object[]) =>
      configOf(JSON.stringify({ ...configFor('https://gateway.example'), proxy: tls, callers }));
    const [token, uri, dns] = [
      { tokenSha256: digest },
      { certificateUri: 'spiffe://a/b' },
      { certificateDns: 'A.b' },
    ];
    const before = config(of('one', token, uri), of('two', { certificateDns: 'a.B' }, { anonymous: true }));
    expect(more(config(of('one', token), of('two', dns, uri, { anonymous: true })), before)).toEqual([
      'two certificateUri',
    ]);
    expect(more(before, config())).toEqual([
      'one tokenSha256',
      'one certificateUri',
      'two certificateDns',
      'two anonymous',
    ]);
  });

  const withProxy = (proxy: object, credential: object) =>
    configOf(
      JSON.stringify({
        ...configFor('https://gateway.example'),
        proxy,
        callers: [{ name: 'billing', credentials: [credential], allow: [] }],
      }),
    );
  const tls = { certFile: 'c', keyFile: 'k', clientCaFile: 'ca', clientCrlFile: 'crl' };
  const unlisted = { ...tls, clientCrlFile: undefined };
  const open = { host: '::', allowAnonymous: true };

  it.each<[object, object, object, boolean]>([
    [{ certificateDns: 'a.b' }, { tls: unlisted }, { tls }, true],
    [{ certificateDns: 'a.b' }, { tls }, { tls: unlisted }, false],
    [{ certificateUri: 'spiffe://a/b' }, { tls: { ...tls, clientCaFile: 'other' } }, { tls }, true],
    [{ anonymous: true }, open, {}, true],
    [{ anonymous: true }, {}, open, false],
    [{ anonymous: true }, { allowedHosts: ['pay.example'] }, {}, true],
    [{ anonymous: true }, {}, { allowedHosts: ['pay.example'] }, false],
    [{ tokenSha256: digest }, { ...open, tls: unlisted }, { tls }, false],
  ])('the credential %j of a listener with %j after %j: %s', (credential, now, before, isMore) => {
    expect(more(withProxy(now, credential), withProxy(before, credential))).toEqual(
      isMore ? [`billing ${Object.keys(credential).join()}`] : [],
    );
  });
});

it('every request of many is listed if and only if it is allowed now and was not', () => {
  const names = ['a', 'aa', 'ab', 'b', 'ba'];
  const patterns = fc.array(fc.constantFrom('*', 'a*', 'aa*', 'b*', ...names), {
    minLength: 1,
    maxLength: 3,
  });
  const operations = fc.constantFrom<string[]>(['*'], ['transfer'], ['manager-balance', 'order-status']);
  const allow = fc.array(
    fc.record({ environments: fc.constant<string[]>(['*']), operations, logins: patterns }),
    {
      maxLength: 2,
    },
  );
  const endpoints = fc.dictionary(fc.constantFrom('1', '2'), fc.constantFrom(...names));
  const configurations = fc
    .tuple(allow, endpoints, fc.constantFrom('enforce', 'enforce', 'dry-run'))
    .map(([allow, map, mode]) =>
      configWith(
        { callers: [{ name: 'c', credentials, allow, mode: mode === 'dry-run' ? mode : 'enforce' }] },
        map,
      ),
    );
  const allows = ({ callers, environments }: Config, operation: string, login: string, endpoint: string) => {
    const owner = operation === 'transfer' ? environments['sandbox']?.endpoints[endpoint] : undefined;
    const [caller] = callers;
    const request = { environment: 'sandbox', operation, login };
    return caller !== undefined && (owner ?? login) === login && decide(caller, request) !== 'denied';
  };
  fc.assert(
    fc.property(configurations, configurations, (now, before) => {
      const { requests } = allowedMore(now, before);
      for (const operation of ['transfer', 'manager-balance'])
        for (const login of [...names, 'c', 'ac', 'aac', 'bac'])
          for (const endpoint of ['1', '2', '3']) {
            const isMore =
              [now, before].map((one) => allows(one, operation, login, endpoint)).join() === 'true,false';
            const rows = requests.filter(
              (row) =>
                row.operation === operation &&
                matchesPattern(row.login, login) &&
                (row.endpoint ?? endpoint) === endpoint,
            );
            if (isMore) expect(rows).not.toEqual([]);
          }
      for (const row of requests.filter(({ operation }) => operation === 'transfer')) {
        const logins = [...names, 'c', 'ac', 'aac', 'bac'].filter((login) =>
          matchesPattern(row.login, login),
        );
        const isOne = logins.some((login) => {
          const endpoint = row.endpoint ?? '3';
          return allows(now, 'transfer', login, endpoint) && !allows(before, 'transfer', login, endpoint);
        });
        expect({ row, isOne }).toEqual({ row, isOne: true });
      }
    }),
    { seed: 1, numRuns: 60 },
  );
});

describe('countersign check --against', () => {
  const operations = Object.keys(builtInOperations);
  const folder = new Folder();
  afterAll(() => folder.remove());
  const fileOf = (name: string, config: object): string =>
    folder.file(name, JSON.stringify({ ...configFor('https://gateway.example'), ...config }));
  const before = fileOf('old.yaml', billing(grant));

  it('exits with 0 if nothing more is allowed', async () => {
    expect(await runCommandHere(check, '--against', before, before)).toEqual({
      code: 0,
      out: 'allows nothing more',
      err: '',
    });
  });

  it('exits with 3 otherwise, and prints what is', async () => {
    const now = fileOf('new.yaml', {
      callers: [{ name: 'billing', credentials: [...credentials, { anonymous: true }], allow: [everything] }],
    });
    const { code, out } = await runCommandHere(check, '--against', before, now);
    expect(code).toBe(3);
    const lines = out.split('\n').map((line) => line.replaceAll(/ +/g, ' '));
    expect(lines).toEqual([
      'CALLER NEW CREDENTIAL',
      'billing {"anonymous":true}',
      'CALLER ENVIRONMENT OPERATION LOGIN ENDPOINT',
      ...operations.map((name) => `billing sandbox ${name} * any`),
    ]);
    const json = await runCommandHere(check, '--json', '--against', before, now);
    expect(json.code).toBe(3);
    expect(JSON.parse(json.out)).toMatchObject({
      credentials: [{ caller: 'billing', credential: { anonymous: true } }],
      requests: operations.map((operation) => ({ operation, login: '*' })),
    });
  });

  it('exits with 2 if the old file is invalid', async () => {
    const old = folder.file('invalid.yaml', 'keys: {}\n');
    const { code, err } = await runCommandHere(check, '--against', old, before);
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(`${old}:1: `) });
  });
});
