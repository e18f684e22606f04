import { describe, expect, it } from '@jest/globals';
import { validateConfig } from '../../../src/config/load.ts';
import { builtInOperations } from '../../../src/gateway/operations.ts';
import { digest, exampleText, exampleVariables, minimal, problemsOf } from './checking.ts';

const caller = (name: string, credential: string, allow = '[]') =>
  `  - { name: ${name}, credentials: [{ ${credential} }], allow: ${allow} }\n`;

describe('the base URLs of environments', () => {
  it.each([
    ['https://gateway.example', 'https://gateway.example/'],
    ['https://gateway.example', 'HTTPS://GATEWAY.example:443'],
    ['https://gateway.example/pay', 'https://gateway.example/pay//'],
    ['http://127.0.0.1:80', 'http://127.1'],
    ['https://gateway.example/a', 'https://gateway.example/%61'],
    ['https://gateway.example/a/b', 'https://gateway.example/a//b/'],
    ['https://gateway.example/a%2Fb', 'https://gateway.example/a%2fb'],
    ['http://127.0.0.1:8090', 'http://localhost:8090'],
    ['http://127.0.0.1:8090', 'http://[::1]:8090'],
    ['http://LOCALHOST:8090', 'http://0.0.0.0:8090'],
    ['https://127.0.0.1', 'https://[::ffff:127.0.0.1]'],
    ['https://10.1.2.3', 'https://[::ffff:10.1.2.3]'],
    ['https://10.1.2.3', 'https://[::FFFF:a01:203]:443'],
    ['https://10.1.2.3', 'https://0x0a010203/'],
  ])('cannot be %s and %s, which are equivalent', (one, other) => {
    const text = `keys: { source: directory, directory: d }
environments:
  a: { baseUrl: "${one}", product: gw }
  b: { baseUrl: "${other}", product: other, allowInsecureHttp: true }`;
    expect(problemsOf(text)).toEqual([
      '4 environments.b.baseUrl: is also the URL of "a", so keys of one could sign for the other: use separate URLs',
    ]);
  });

  it.each([
    ['https://gateway.example/a', 'https://gateway.example/A'],
    ['https://gateway.example/a%2Fb', 'https://gateway.example/a/b'],
    ['http://127.0.0.1:8090', 'http://127.0.0.2:8090'],
    ['http://127.0.0.1:8090', 'http://localhost:8091'],
    ['https://10.1.2.3', 'https://[::10.1.2.3]'],
  ])('can be %s and %s, which are not', (one, other) => {
    const text = `keys: { source: directory, directory: d }
environments:
  a: { baseUrl: "${one}", product: gw }
  b: { baseUrl: "${other}", product: gw }`;
    expect(problemsOf(text)).toEqual([]);
  });

  it.each([
    'https://gateway.example./',
    'https://gateway.example/b/../a',
    'https://gateway.example/b/%2e%2e/a',
  ])('cannot be %s, another way to write one', (alias) => {
    const text = `keys: { source: directory, directory: d }
environments:
  a: { baseUrl: "https://gateway.example/a", product: gw }
  b: { baseUrl: "${alias}", product: gw }`;
    expect(problemsOf(text)).toEqual([expect.stringMatching(/^4 environments\.b\.baseUrl: must /)]);
  });

  it('are reported with the first environment that has the same one', () => {
    const text = `keys: { source: directory, directory: d }
environments:
  a: { baseUrl: "https://gateway.example", product: gw }
  b: { baseUrl: "https://gateway.example", product: gw }
  c: { baseUrl: "https://gateway.example", product: gw }`;
    expect(problemsOf(text)).toEqual([
      expect.stringContaining('4 environments.b.baseUrl: is also the URL of "a"'),
      expect.stringContaining('5 environments.c.baseUrl: is also the URL of "a"'),
    ]);
  });

  it('are not compared where they are invalid', () => {
    const text = `keys: { source: directory, directory: d }
environments:
  a: { baseUrl: "gateway", product: gw }
  b: { baseUrl: "gateway", product: gw }`;
    expect(problemsOf(text)).toEqual([
      expect.stringMatching(/^3 environments\.a\.baseUrl: must be an absolute URL/),
      expect.stringMatching(/^4 environments\.b\.baseUrl: must be an absolute URL/),
    ]);
  });

  it('may be two paths of one host', () => {
    const text = `keys: { source: directory, directory: d }
environments:
  a: { baseUrl: "https://gateway.example/a", product: gw }
  b: { baseUrl: "https://gateway.example/b", product: gw }`;
    expect(problemsOf(text)).toEqual([]);
  });

  it('are compared although other fields of an environment are invalid', () => {
    const text = `keys: { source: directory, directory: d }
environments:
  a: { baseUrl: "https://gateway.example", product: "/" }
  b: { baseUrl: "https://gateway.example", product: gw, maxInFlight: 0 }`;
    expect(problemsOf(text).map((problem) => problem.split(':')[0])).toEqual([
      '3 environments.a.product',
      '4 environments.b.maxInFlight',
      '4 environments.b.baseUrl',
    ]);
  });
});

describe('the mounts of keys that do not leave Vault', () => {
  const mounts = (text: string) => `keys:
  source: vault
  vault:
    address: https://vault.example
    auth: { method: token, tokenFile: token }
    transit: { mounts: ${text} }
environments:
  sandbox: { baseUrl: "https://sandbox.example", product: gw }
  production: { baseUrl: "https://gateway.example", product: gw }`;

  it('may be one for each environment, or for some', () => {
    expect(problemsOf(mounts('{ sandbox: transit/sandbox, production: transit/production }'))).toEqual([]);
    expect(problemsOf(mounts('{ production: transit }'))).toEqual([]);
  });

  it('cannot be shared, since keys of one environment could sign for the other', () => {
    expect(problemsOf(mounts('{ sandbox: transit, production: transit }'))).toEqual([
      '6 keys.vault.transit.mounts.production: must differ from the mount of sandbox: each environment has a separate Transit engine',
    ]);
  });

  it('are of configured environments', () => {
    expect(problemsOf(mounts('{ prodution: transit }'))).toEqual([
      '6 keys.vault.transit.mounts.prodution: unknown environment; did you mean "production"?',
    ]);
  });

  it.each(['../sys', 'transit/', ''])('cannot be %j', (mount) => {
    expect(problemsOf(mounts(`{ sandbox: "${mount}" }`))).toEqual([
      expect.stringContaining('6 keys.vault.transit.mounts.sandbox: must be a mount path'),
    ]);
  });
});

describe('validating operations', () => {
  const operations = (shared: string, own = '') => `keys: { source: directory, directory: d }
environments:
  sandbox:
    baseUrl: https://gateway.example
    product: gw
    operations: {${own}}
operations: {${shared}}`;

  it('accepts an override of one field of a built-in operation', () => {
    expect(
      problemsOf(operations('transfer: { signature: HMAC-SHA1 }', 'transfer: { loginFrom: body }')),
    ).toEqual([]);
  });

  it('accepts a new operation with path, signature and loginFrom', () => {
    const added = 'refund: { path: "/api/v4/return/{endpoint}", signature: RSA-SHA256, loginFrom: header }';
    expect(problemsOf(operations(added))).toEqual([]);
    expect(problemsOf(operations('', added))).toEqual([]);
  });

  it('reports the missing fields of a new operation once', () => {
    expect(problemsOf(operations('refund: { signature: RSA-SHA256 }'))).toEqual([
      '7 operations.refund: is not a built-in operation, so it also requires path, loginFrom',
    ]);
    expect(problemsOf(operations('', 'refund: { path: /api/v4/return, loginFrom: body }'))).toEqual([
      '6 environments.sandbox.operations.refund: is not a built-in operation, so it also requires signature',
    ]);
  });

  it('accepts an environment override of an added operation', () => {
    const added = 'refund: { path: "/api/v4/return/{endpoint}", signature: RSA-SHA256, loginFrom: header }';
    expect(problemsOf(operations(added, 'refund: { signature: HMAC-SHA1 }'))).toEqual([]);
  });

  it('requires {login} in the path if loginFrom is path', () => {
    expect(problemsOf(operations('', 'transfer: { loginFrom: path }'))).toEqual([
      '6 environments.sandbox.operations.transfer: takes the login from the path, so its path must contain {login}',
    ]);
    expect(problemsOf(operations('manager-balance: { path: /api/v2/balance }'))).toEqual([
      '7 operations.manager-balance: takes the login from the path, so its path must contain {login}',
    ]);
    // The place is the topmost one that has a part in it.
    const own = 'transfer: { loginFrom: path, signature: HMAC-SHA1 }';
    expect(problemsOf(operations('transfer: { path: /api/v4/pay, readOnly: false }', own))).toEqual([
      '6 environments.sandbox.operations.transfer: takes the login from the path, so its path must contain {login}',
    ]);
  });

  it('requires what a control is made of for SHA1-control, and only for it', () => {
    const both = 'requires both signature: SHA1-control and control, or neither';
    const added = 'path: "/api/v2/return/{endpoint}", loginFrom: header';
    expect(problemsOf(operations(`return: { ${added}, signature: SHA1-control }`))).toEqual([
      `7 operations.return: ${both}`,
    ]);
    expect(problemsOf(operations('', 'transfer: { control: [login] }'))).toEqual([
      `6 environments.sandbox.operations.transfer: ${both}`,
    ]);
    const control = 'control: ["{endpoint}", "{login}", client_orderid]';
    expect(problemsOf(operations(`return: { ${added}, signature: SHA1-control, ${control} }`))).toEqual([
      '7 operations.return: has {login} in its control, which its path does not contain',
    ]);
    const valid = `return: { ${added}, signature: SHA1-control, control: [login, client_orderid] }`;
    expect(problemsOf(operations(valid))).toEqual([]);
  });

  it.each(['/api/{login}/{login}', '/api/{endpoint}/x/{endpoint}'])('rejects the path %s', (path) => {
    expect(problemsOf(operations(`transfer: { path: "${path}" }`))).toEqual([
      '7 operations.transfer.path: must contain each of {login}, {endpoint} and {endpointGroup} at most once',
    ]);
  });

  it.each([
    '/v4/status',
    'api/v4',
    '/api/',
    '/api/../x',
    '/api/.',
    '/api/{other}',
    '/api/a{login}',
    '/api/a?b',
    '/api/%41',
  ])('rejects the path %s', (path) => {
    expect(problemsOf(operations(`transfer: { path: "${path}" }`))).toEqual([
      expect.stringContaining('7 operations.transfer.path: must look like'),
    ]);
  });

  it('rejects two operations with the same path', () => {
    const own = 'state: { path: "/api/v4/status/{endpointGroup}", signature: RSA-SHA256, loginFrom: body }';
    expect(problemsOf(operations('', own))).toEqual([
      '6 environments.sandbox.operations.state: conflicts with the path of "order-status"',
    ]);
  });
});

describe('the two ports', () => {
  const message =
    '5 admin.port: is also the port of the proxy, so Countersign could not start: use another one';
  const withPorts = (proxy: string, admin: string) => `${minimal}admin: { ${admin} }\nproxy: { ${proxy} }`;

  it.each([
    ['port: 9000', 'port: 9000'],
    ['port: 9090', 'host: 127.0.0.1'],
    ['port: 9000', 'port: 9000, host: "0.0.0.0"'],
    ['port: 9000, host: "::"', 'port: 9000'],
    ['port: 9000, host: LocalHost', 'port: 9000'],
    ['port: 9000', 'port: 9000, host: "::ffff:127.0.0.1"'],
    ['port: 9000, host: "::1"', 'port: 9000, host: "0:0:0:0:0:0:0:1"'],
    ['port: 9000, host: "0:0:0:0:0:0:0:0"', 'port: 9000, host: 10.0.0.1'],
  ])('cannot be one: { %s } and { %s }', (proxy, admin) => {
    expect(problemsOf(withPorts(proxy, admin))).toEqual([message]);
  });

  it.each([
    ['port: 0', 'port: 0'],
    ['port: 9000', 'port: 9001'],
    ['port: 9000, host: 10.0.0.1', 'port: 9000'],
    ['port: 9000, host: 127.0.0.2', 'port: 9000'],
    ['port: 9000, host: "::1"', 'port: 9000'],
    ['port: 9000, host: "fe80::1%eth0"', 'port: 9000, host: "fe80::1%eth1"'],
  ])('can be { %s } and { %s }', (proxy, admin) => {
    expect(problemsOf(withPorts(proxy, admin))).toEqual([]);
  });

  it('are those that options and variables set', () => {
    const text = withPorts('port: 9000', 'port: 9000');
    const checkWith = (ports: { readonly proxy?: number; readonly admin?: number }) =>
      'problems' in validateConfig(text, { lookUp: () => undefined, builtIn: builtInOperations, ports });
    expect(checkWith({ admin: 9001 })).toBe(false);
    expect(checkWith({ proxy: 0 })).toBe(false);
    expect(checkWith({ proxy: 9001, admin: 9001 })).toBe(true);
  });
});

describe('a name in a client certificate', () => {
  const problemsWith = (credential: string) =>
    problemsOf(
      `${minimal}proxy: { tls: { certFile: c, keyFile: k, clientCaFile: a } }\ncallers:\n${caller('a', credential)}`,
    );

  it.each([
    'spiffe://cluster.example/ns/pay/sa/billing',
    'urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6',
    'https://billing.example:8443/a?b=c#d',
    'mailto:billing@example.com',
  ])('can be the URI %s', (uri) => {
    expect(problemsWith(`certificateUri: "${uri}"`)).toEqual([]);
  });

  it.each([
    'billing',
    'billing.example',
    'billing.example:443',
    'billing:443',
    '//cluster.example/billing',
    'spiffe://cluster.example/100%',
    'URI:spiffe://cluster.example/billing',
    'spiffe://cluster.example/a b',
    'spiffe://cluster.example/a,b',
    "spiffe://cluster.example/a'b",
    'spiffe://cluster.example/\u00fc',
    'spiffe:',
    ' spiffe://a',
  ])('cannot be %j, which is no URI or matches none', (uri) => {
    expect(problemsWith(`certificateUri: "${uri}"`)).toEqual([
      expect.stringMatching(
        /^7 callers\[0\]\.credentials\[0\]\.certificateUri: must be a URI with its scheme, such as spiffe:/,
      ),
    ]);
  });

  it.each(['https://billing.example', 'billing.example:443', 'DNS:billing.example', 'a b', ''])(
    'cannot be %j, which is no DNS name',
    (name) => {
      expect(problemsWith(`certificateDns: "${name}"`)).toEqual([
        expect.stringMatching(/certificateDns: must be a DNS name such as billing\.example/),
      ]);
    },
  );
});

describe('validating callers', () => {
  it('rejects a grant for an unknown name, and suggests a known one', () => {
    const allow =
      '[{ environments: [sandbx, "*"], operations: [order-statu, bogus-entirely, transfer], logins: ["*"] }]';
    expect(problemsOf(`${minimal}callers:\n${caller('a', `tokenSha256: ${digest}`, allow)}`)).toEqual([
      '6 callers[0].allow[0].environments[0]: unknown environment; did you mean "sandbox"?',
      '6 callers[0].allow[0].operations[0]: unknown operation; did you mean "order-status"?',
      '6 callers[0].allow[0].operations[1]: unknown operation; known: manager-balance, order-status, order-status-group, pan-eligibility-send, transfer, verify-callback',
    ]);
  });

  it('lists the environments where none is near', () => {
    const allow = '[{ environments: [staging], operations: [transfer], logins: ["*"] }]';
    expect(problemsOf(`${minimal}callers:\n${caller('a', `tokenSha256: ${digest}`, allow)}`)).toEqual([
      '6 callers[0].allow[0].environments[0]: unknown environment; known: sandbox',
    ]);
  });

  it('accepts a grant for an operation that one environment adds, even if that operation is invalid', () => {
    const text = `keys: { source: directory, directory: d }
environments:
  sandbox:
    baseUrl: https://gateway.example
    product: gw
    operations: { refund: { path: nonsense, signature: RSA-SHA256, loginFrom: body } }
callers:
${caller('a', `tokenSha256: ${digest}`, '[{ environments: [sandbox], operations: [refund], logins: [b] }]')}`;
    expect(problemsOf(text)).toEqual([
      expect.stringContaining('6 environments.sandbox.operations.refund.path: '),
    ]);
  });

  it('rejects a grant for the name of an inherited property', () => {
    const allow = '[{ environments: [constructor], operations: [toString], logins: [a] }]';
    expect(problemsOf(`${minimal}callers:\n${caller('a', `tokenSha256: ${digest}`, allow)}`)).toHaveLength(2);
  });

  it('rejects two callers with the same name', () => {
    const other = 'f'.repeat(64);
    const text = `${minimal}callers:\n${caller('a', `tokenSha256: ${digest}`)}${caller('a', `tokenSha256: ${other}`)}`;
    expect(problemsOf(text)).toEqual([
      '7 callers[1].name: duplicate caller name (callers[0].name): remove one of the two',
    ]);
  });

  it.each([
    [`tokenSha256: ${digest}`, `tokenSha256: ${digest}`],
    ['anonymous: true', 'anonymous: true'],
    ['certificateUri: "spiffe://a/b"', 'certificateUri: "spiffe://a/b"'],
    ['certificateDns: a.example', 'certificateDns: A.Example'],
  ])('rejects two callers with the same credential: %s', (one, other) => {
    const tls = 'proxy: { tls: { certFile: c, keyFile: k, clientCaFile: a } }\n';
    expect(problemsOf(`${minimal}${tls}callers:\n${caller('a', one)}${caller('b', other)}`)).toEqual([
      '8 callers[1].credentials[0]: duplicate credential (callers[0].credentials[0]): remove one of the two',
    ]);
  });

  it.each([
    ['127.0.0.1', true],
    ['127.8.8.8', true],
    ['::1', true],
    ['LocalHost', true],
    ['0.0.0.0', false],
    ['::', false],
    ['10.0.0.1', false],
    ['127.0.0.1.example', false],
  ])('accepts an anonymous caller with the proxy on %s: %s', (host, possible) => {
    const text = `${minimal}proxy: { host: "${host}" }\ncallers:\n${caller('a', 'anonymous: true')}`;
    expect(problemsOf(text)).toEqual(
      possible ? [] : [expect.stringContaining('7 callers[0].credentials[0]: allows anonymous access')],
    );
  });

  it('accepts an anonymous caller on any address with allowAnonymous', () => {
    const text = `${minimal}proxy: { host: 0.0.0.0, allowAnonymous: true }\ncallers:\n${caller('a', 'anonymous: true')}`;
    expect(problemsOf(text)).toEqual([]);
  });

  it.each(['certificateUri: "spiffe://a"', 'certificateDns: a.example'])(
    'requires a client CA for %s',
    (credential) => {
      const tls = 'proxy: { tls: { certFile: c, keyFile: k } }\n';
      expect(problemsOf(`${minimal}${tls}callers:\n${caller('a', credential)}`)).toEqual([
        expect.stringContaining('7 callers[0].credentials[0]: requires proxy.tls.clientCaFile'),
      ]);
    },
  );
});

describe('a caller with a bearer token', () => {
  const token = (proxy: string): string =>
    `${minimal}proxy: ${proxy}\ncallers:\n${caller('a', 'certificateUri: "spiffe://a"')}${caller('b', `tokenSha256: ${digest}`)}${caller('c', `tokenSha256: ${'f'.repeat(64)}`)}`;
  const [tls, plain] = ['tls: { certFile: c, keyFile: k, clientCaFile: a }', '7 callers[0].credentials[0]'];
  const found = (proxy: string): string[] =>
    problemsOf(token(proxy)).filter((line) => !line.startsWith(plain));

  it.each(['0.0.0.0', '::', '10.0.0.1', 'localhost.example'])('cannot send it without TLS to %s', (host) => {
    expect(found(`{ host: "${host}" }`)).toEqual([
      '8 callers[1].credentials[0]: is a bearer token, which anyone on the network could read: set proxy.tls, set proxy.host to 127.0.0.1, or, if something else encrypts the connections, set proxy.allowPlaintext: true',
    ]);
  });

  it.each([
    'host: 127.0.0.1',
    'host: localhost',
    `host: 0.0.0.0, ${tls}`,
    'host: 0.0.0.0, allowPlaintext: true',
  ])('can send it with { %s }', (proxy) => {
    expect(found(`{ ${proxy} }`)).toEqual([]);
  });

  it('of a JWT cannot send it without TLS either', () => {
    const issuers = 'jwtIssuers: { idp: { issuer: "https://idp.example", audience: countersign } }';
    const text = `${minimal}proxy: { host: 0.0.0.0 }\n${issuers}\ncallers:\n${caller('a', 'jwt: { issuer: idp, subject: a }')}`;
    expect(problemsOf(text)).toEqual([
      expect.stringMatching(/^8 callers\[0\]\.credentials\[0\]: is a bearer token/),
    ]);
  });
});

describe('a problem in one field', () => {
  it('hides none between other fields, also of the same mapping', () => {
    const text = `proxy: { port: 9000, maxBodyBytes: 0, host: "::", tls: { certFile: c } }
admin: { port: 9000, tls: none }
environments:
  a: { baseUrl: "https://gateway.example", product: "/" }
  B: { baseUrl: "https://other.example", endpoints: none }
  c: { baseUrl: "https://gateway.example", product: gw, operations: { refund: { path: x, loginFrom: path } } }
keys: { source: vault, vault: { transit: { mounts: { d: "" } } } }
jwtIssuers: { idp: { issuer: i }, other: { issuer: i, audience: a, jwks: { file: f } } }
callers:
  - { name: one, mode: none, credentials: [{ tokenSha256: x }, { jwt: { issuer: idq, subject: s } }], allow: [{ environments: [B, d], operations: 1 }] }
  - { name: one, credentials: [{ certificateUri: "spiffe://a/b" }, { certificateUri: "spiffe://a/b" }, 1] }
`;
    const problems = problemsOf(text);
    expect(problems).toHaveLength(26);
    for (const expected of [
      '2 admin.port: is also the port of the proxy',
      '6 environments.c.baseUrl: is also the URL of "a"',
      '6 environments.c.operations.refund: is not a built-in operation, so it also requires signature',
      '7 keys.vault.transit.mounts.d: unknown environment; known: a, c, B',
      '8 jwtIssuers.other.issuer: duplicate issuer (jwtIssuers.idp)',
      '10 callers[0].allow[0].environments[1]: unknown environment; known: a, c, B',
      '10 callers[0].credentials[1].jwt.issuer: unknown entry of jwtIssuers; did you mean "idp"?',
      '11 callers[1].name: duplicate caller name (callers[0].name)',
      '11 callers[1].credentials[1]: duplicate credential (callers[1].credentials[0])',
      '11 callers[1].credentials[0]: requires proxy.tls.clientCaFile to verify client certificates',
    ])
      expect(problems).toContainEqual(expect.stringContaining(expected));
  });

  it('hides none between other fields, whichever it is and whatever is wrong', () => {
    const text = exampleText('vault').replace('name: payouts', 'name: billing');
    const places = [...text.matchAll(/(?<=^ *[\w-]+: +)[^ |{[#].*$/gm)].filter(
      ([value]) => value !== 'billing',
    );
    expect(places.length).toBeGreaterThan(15);
    for (const { 0: value, index } of places)
      for (const wrong of ['x/y', '1.5', '-1', '{}', '[1]', 'null', 'true', '""']) {
        const problems = problemsOf(
          text.slice(0, index) + wrong + text.slice(index + value.length),
          exampleVariables,
        );
        expect({ value, wrong, problems }).toMatchObject({
          problems: expect.arrayContaining([expect.stringContaining('name: duplicate caller name')]),
        });
      }
  });

  it('is the only one of it, although other fields depend on it', () => {
    const token = `[${caller('a', `tokenSha256: ${digest}`).trim().slice(1)}, { name: b, credentials: [{ anonymous: true }] }]`;
    const withProxy = (fields: string) => problemsOf(`${minimal}proxy: { ${fields} }\ncallers: ${token}\n`);
    expect(withProxy('host: 1')).toEqual([expect.stringContaining('5 proxy.host: must be a string')]);
    expect(withProxy('host: "::", tls: none, allowAnonymous: 1')).toEqual([
      expect.stringContaining('5 proxy.tls: must be a mapping'),
      expect.stringContaining('5 proxy.allowAnonymous: must be true or false'),
    ]);
    expect(withProxy('host: "::", allowPlaintext: 1, allowAnonymous: true')).toEqual([
      expect.stringContaining('5 proxy.allowPlaintext: must be true or false'),
    ]);
  });
});

describe('payments.once', () => {
  const withOnce = (once: string, request = '30s') => `keys: { source: directory, directory: d }
environments:
  a: { baseUrl: "https://gateway.example", product: gw, timeouts: { request: ${request} } }
payments: { once: { ${once} } }`;

  it('rejects an operation with once that may be sent again', () => {
    const problem =
      'is readOnly, so it may be sent again, although with once it makes an order: set one of the two to false';
    const pay =
      'path: "/api/v2/pay/{endpoint}", loginFrom: header, signature: RSA-SHA256, readOnly: true, once: true';
    const operations = (text: string) => `\noperations: { ${text} }`;
    const memory = withOnce('store: memory');
    expect(problemsOf(memory + operations(`pay: { ${pay} }`))).toEqual([`5 operations.pay: ${problem}`]);
    const transfer = operations('transfer: { readOnly: true }');
    expect(problemsOf(memory + transfer)).toEqual([`5 operations.transfer: ${problem}`]);
    const off = operations('transfer: { readOnly: true, once: false }');
    expect(problemsOf(memory + off)).toEqual([]);
    expect(problemsOf(memory.replace(/payments.*/, '') + transfer)).toEqual([]);
  });

  it.each([
    [
      'store: memory, ttl: 1h',
      '1h',
      'payments.once.ttl: must be longer than timeouts.request of a: lengthen it',
    ],
    ['store: memory, timeout: 11s', '30s', 'payments.once.timeout: must be at most 10s'],
    ['store: memory, ttl: 30m', '30s', 'payments.once.ttl: must be at least 1h'],
    ['store: "rediss://r.example"', '30s', 'keyFile: is required, because the store is not in memory'],
    ['store: memory, keyFile: k', '30s', 'store: must be a URL, because one of keyFile'],
    ['store: "redis://r.example", keyFile: k', '30s', 'store: must use rediss: unless the host is loopback'],
    ['store: "rediss://u:p@r.example", keyFile: k', '30s', 'store: must be memory or a URL'],
    ['store: "https://r.example", keyFile: k', '30s', 'store: must be memory or a URL'],
    ['store: "rediss://r.example", keyFile: k, username: u', '30s', 'username: requires passwordFile'],
    ['store: "redis://127.0.0.1", keyFile: k, caFile: c', '30s', 'caFile: requires a rediss: URL'],
  ])('cannot be { %s } with requests of %s', (once, request, message) => {
    expect(problemsOf(withOnce(once, request))).toEqual([expect.stringContaining(message)]);
  });

  it.each([
    'store: memory',
    'store: "redis://127.0.0.1:6379/3", keyFile: k',
    'store: "redis://[::1]", keyFile: k',
    'store: "redis://r.example", keyFile: k, allowPlaintext: true',
    'store: "rediss://r.example:6380", keyFile: k, username: u, passwordFile: p, caFile: c',
  ])('can be { %s }', (once) => {
    expect(problemsOf(withOnce(once))).toEqual([]);
  });
});
