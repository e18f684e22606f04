import { describe, expect, it } from '@jest/globals';
import {
  digest,
  exampleText,
  exampleVariables,
  expectProblems,
  minimal,
  problemsOf,
  rows,
} from './checking.ts';

const caller = (name: string, credential: string | undefined, allow = '[]') =>
  `  - { name: ${name}, credentials: [{ ${credential} }], allow: ${allow} }\n`;

describe('the base URLs of environments', () => {
  const environments = (...bodies: readonly string[]) =>
    `keys: { source: directory, directory: d }\nenvironments:\n${bodies.map((body, index) => `  ${'abc'.charAt(index)}: { ${body} }\n`).join('')}`;

  it.each(rows`
    https://gateway.example       || https://gateway.example/       || equivalent
    https://gateway.example       || HTTPS://GATEWAY.example:443    || equivalent
    https://gateway.example/pay   || https://gateway.example/pay//  || equivalent
    http://127.0.0.1:8090         || http://localhost:8090          || equivalent
    http://127.0.0.1:8090         || http://[::1]:8090              || equivalent
    http://LOCALHOST:8090         || http://0.0.0.0:8090            || equivalent
    https://gateway.example/a     || https://gateway.example/A      || none
    https://gateway.example/a%2Fb || https://gateway.example/a/b    || none
    http://127.0.0.1:8090         || http://127.0.0.2:8090          || none
    http://127.0.0.1:8090         || http://localhost:8091          || none
  `)('%s and %s: %s', (one, other, expected) => {
    const allowed = 'allowInsecureHttp: true';
    const problem =
      '4 environments.b.baseUrl: is also the URL of "a", so keys of one could sign for the other: use separate URLs';
    expectProblems(
      environments(`baseUrl: "${one}", product: gw`, `baseUrl: "${other}", product: other, ${allowed}`),
      expected === 'none' ? expected : problem,
    );
  });

  it('are compared although other fields are invalid, not where they are, and reported with the first', () => {
    const same = 'baseUrl: "https://gateway.example"';
    expectProblems(
      environments(`${same}, product: gw`, `${same}, product: gw`, `${same}, product: gw`),
      '4 environments.b.baseUrl: is also the URL of "a" && 5 environments.c.baseUrl: is also the URL of "a"',
    );
    expectProblems(
      environments(`${same}, product: "/"`, `${same}, product: gw, maxInFlight: 0`),
      '3 environments.a.product && 4 environments.b.maxInFlight && 4 environments.b.baseUrl: is also',
    );
    expectProblems(
      environments('baseUrl: "http://gateway.example", product: gw, keyFile: k'),
      '3 environments.a && 3 environments.a.baseUrl: must use https',
    );
    expectProblems(
      environments('baseUrl: "gateway", product: gw', 'baseUrl: "gateway", product: gw'),
      '3 environments.a.baseUrl: must be an absolute URL && 4 environments.b.baseUrl: must be an absolute URL',
    );
  });
});

it.each(rows`
  { sandbox: transit/sandbox, production: transit/production } || none
  { production: transit }                   || none
  { sandbox: transit, production: transit } || production: must differ from the mount of sandbox: each environment has a separate Transit engine
  { prodution: transit }                    || prodution: unknown environment; did you mean "production"?
  { sandbox: ../sys }                       || sandbox: must be a mount path
`)('the mounts %s of keys that do not leave Vault: %s', (mounts, problem) => {
  const text = `keys:
  source: vault
  vault:
    address: https://vault.example
    auth: { method: token, tokenFile: token }
    transit: { mounts: ${mounts} }
environments:
  sandbox: { baseUrl: "https://sandbox.example", product: gw }
  production: { baseUrl: "https://gateway.example", product: gw }`;
  expectProblems(text, problem === 'none' ? problem : `6 keys.vault.transit.mounts.${problem}`);
});

describe('operations', () => {
  const operations = (shared = '', own = '') => `keys: { source: directory, directory: d }
environments:
  sandbox:
    baseUrl: https://gateway.example
    product: gw
    operations: {${own}}
operations: {${shared}}`;
  const refund = 'refund: { path: "/api/v4/return/{endpoint}", signature: RSA-SHA256, loginFrom: header }';

  it('may be new or override, in one environment or in all', () => {
    for (const [shared, own] of [
      ['transfer: { signature: HMAC-SHA1 }', 'transfer: { loginFrom: body }'],
      [refund],
      ['', refund],
      [refund, 'refund: { signature: HMAC-SHA1 }'],
    ])
      expectProblems(operations(shared, own), 'none');
  });

  it.each(rows`
    refund: { signature: RSA-SHA256 }                 || refund: is not a built-in operation, so it also requires path, loginFrom
    refund: { path: /api/v4/return, loginFrom: body } || refund: is not a built-in operation, so it also requires signature
    transfer: { loginFrom: path }                     || transfer: takes the login from the path, so its path must contain {login}
    manager-balance: { path: /api/v2/balance }        || manager-balance: takes the login from the path, so its path must contain {login}
    transfer: { control: [login] }                    || transfer: requires both signature: SHA1-control and control, or neither
    return: { path: "/api/v2/return/{endpoint}", loginFrom: header, control: [login] } || return: is not a built-in operation, so it also requires signature
    return: { path: "/api/v2/return/{endpoint}", loginFrom: header, signature: SHA1-control } || return: requires both signature: SHA1-control and control, or neither
    return: { path: "/api/v2/return/{endpoint}", loginFrom: header, signature: SHA1-control, control: ["{login}"] } || return: has {login} in its control, which its path does not contain
    return: { path: "/api/v2/return/{endpoint}", loginFrom: header, signature: SHA1-control, control: [login, "{endpoint}"] } || none
    state: { path: "/api/v4/status/{endpointGroup}", signature: RSA-SHA256, loginFrom: body } || state: conflicts with the path of "order-status"
    transfer: { path: "/api/{login}/{login}" }        || transfer.path: must contain each of {login}, {endpoint} and {endpointGroup} at most once
    transfer: { path: "/v4/status" }                  || transfer.path: must look like
    transfer: { path: "/api/../x" }                   || transfer.path: must look like
    transfer: { path: "/api/{other}" }                || transfer.path: must look like
    transfer: { path: "/api/%41" }                    || transfer.path: must look like
  `)('with { %s }: %s', (operation, problem) => {
    const isNone = problem === 'none';
    expectProblems(
      operations('', operation),
      isNone ? problem : `6 environments.sandbox.operations.${problem}`,
    );
    const shared = operation?.startsWith('state') ? 'conflicts' : `7 operations.${problem}`;
    expectProblems(operations(operation), isNone ? problem : shared);
  });

  it('have a problem between two places at the topmost one that has a part in it', () => {
    const own = 'transfer: { loginFrom: path, signature: HMAC-SHA1 }';
    expectProblems(
      operations('transfer: { path: /api/v4/pay, readOnly: false }', own),
      '6 environments.sandbox.operations.transfer: takes the login from the path',
    );
  });
});

it.each(rows`
  port: 9000              || port: 9000      || the same
  port: 9090              || host: 10.0.0.1  || the same
  port: 0                 || port: 0         || none
  port: 9000              || port: 9001      || none
`)('the ports of { %s } and { %s }: %s', (proxy, admin, expected) => {
  const problem = '5 admin.port: is also the port of the proxy: use another one';
  const text = `${minimal}admin: { ${admin} }\nproxy: { ${proxy} }`;
  expectProblems(text, expected === 'none' ? expected : problem);
});

describe('callers', () => {
  const clientTls = 'proxy: { tls: { certFile: c, keyFile: k, clientCaFile: a } }\n';

  it.each([
    ...rows`
      certificateUri: "spiffe://cluster.example/ns/pay/sa/billing"            || none
      certificateUri: "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"         || none
      certificateUri: "https://billing.example:8443/a?b=c#d"                  || none
    `,
    ...[
      'billing',
      'billing.example:443',
      'spiffe://cluster.example/100%',
      'URI:spiffe://cluster.example/billing',
      'spiffe://cluster.example/a,b',
      "spiffe://cluster.example/a'b",
    ].map((uri) => [
      `certificateUri: "${uri}"`,
      '7 callers[0].credentials[0].certificateUri: must be a URI with its scheme, such as spiffe:/',
    ]),
    ...['https://billing.example', 'billing.example:443', 'DNS:billing.example', 'a b', ''].map((name) => [
      `certificateDns: "${name}"`,
      'certificateDns: must be a DNS name such as billing.example',
    ]),
  ])('by the name { %s }: %s', (credential, problem) => {
    expectProblems(`${minimal}${clientTls}callers:\n${caller('a', credential)}`, problem);
  });

  const allowing = (allow: string) => `${minimal}callers:\n${caller('a', `tokenSha256: ${digest}`, allow)}`;

  it('have grants for known names; else one is suggested', () => {
    expect(
      problemsOf(
        allowing(
          '[{ environments: [sandbx, "*", staging], operations: [order-statu, bogus-entirely, transfer], logins: ["*"] }]',
        ),
      ),
    ).toEqual([
      '6 callers[0].allow[0].environments[0]: unknown environment; did you mean "sandbox"?',
      '6 callers[0].allow[0].environments[2]: unknown environment; known: sandbox',
      '6 callers[0].allow[0].operations[0]: unknown operation; did you mean "order-status"?',
      '6 callers[0].allow[0].operations[1]: unknown operation; known: manager-balance, order-status, order-status-group, pan-eligibility-send, transfer, verify-callback',
    ]);
    // Inherited properties are none.
    expect(
      problemsOf(allowing('[{ environments: [constructor], operations: [toString], logins: [a] }]')),
    ).toHaveLength(2);
  });

  it('may have a grant for an operation that one environment adds, even if that operation is invalid', () => {
    const operation = 'operations: { refund: { path: x, signature: RSA-SHA256, loginFrom: body } }';
    const text = allowing('[{ environments: [sandbox], operations: [refund], logins: [b] }]');
    expectProblems(
      text.replace('product: gw', `product: gw, ${operation}`),
      '3 environments.sandbox.operations.refund.path: ',
    );
  });

  it.each([
    [`tokenSha256: ${digest}`, `tokenSha256: ${digest}`],
    ['anonymous: true', 'anonymous: true'],
    ['certificateUri: "spiffe://a/b"', 'certificateUri: "spiffe://a/b"'],
    ['certificateDns: a.example', 'certificateDns: A.Example'],
  ])('differ in name and credential: %s', (one, other) => {
    expectProblems(
      `${minimal}${clientTls}callers:\n${caller('a', one)}${caller('b', other)}`,
      '8 callers[1].credentials[0]: duplicate credential (callers[0].credentials[0]): remove one of the two',
    );
    expectProblems(
      `${minimal}${clientTls}callers:\n${caller('a', one)}${caller('a', `tokenSha256: ${'f'.repeat(64)}`)}`,
      '8 callers[1].name: duplicate caller name (callers[0].name): remove one of the two',
    );
  });

  const anonymous = 'allows anonymous access';
  const plaintext =
    'is a bearer token, which anyone on the network could read: set proxy.tls, set proxy.host to 127.0.0.1, or, if something else encrypts the connections, set proxy.allowPlaintext: true';
  const token = `tokenSha256: ${digest}`;
  const needsCa = 'requires proxy.tls.clientCaFile';
  const tls = 'tls: { certFile: c, keyFile: k }';

  it.each([
    ['host: 127.0.0.1', 'anonymous: true', 'none'],
    ['host: 127.8.8.8', 'anonymous: true', 'none'],
    ['host: "::1"', 'anonymous: true', 'none'],
    ['host: LocalHost', 'anonymous: true', 'none'],
    ['host: 0.0.0.0', 'anonymous: true', anonymous],
    ['host: 127.0.0.1.example', 'anonymous: true', anonymous],
    ['host: 0.0.0.0, allowAnonymous: true', 'anonymous: true', 'none'],
    ['host: localhost', token, 'none'],
    [`host: 0.0.0.0, ${tls}`, token, 'none'],
    ['host: 0.0.0.0, allowPlaintext: true', token, 'none'],
    ['host: 0.0.0.0', token, plaintext],
    ['host: 0.0.0.0', 'jwt: { issuer: idp, subject: a }', plaintext],
    [tls, 'certificateUri: "spiffe://a"', needsCa],
    [tls, 'certificateDns: a.example', needsCa],
  ])('with proxy { %s } by { %s }: %s', (proxy, credential, problem) => {
    const issuers = 'jwtIssuers: { idp: { issuer: "https://idp.example", audience: countersign } }';
    const text = `${minimal}proxy: { ${proxy} }\n${issuers}\ncallers:\n${caller('a', credential)}`;
    expectProblems(text, problem === 'none' ? problem : `8 callers[0].credentials[0]: ${problem}`);
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
      for (const wrong of ['x/y', '{}']) {
        const problems = problemsOf(
          text.slice(0, index) + wrong + text.slice(index + value.length),
          exampleVariables,
        );
        expect({ value, wrong, problems }).toMatchObject({
          problems: expect.arrayContaining([expect.stringContaining('name: duplicate caller name')]),
        });
      }
  });

  it.each(rows`
    host: 1                                                || 5 proxy.host: must be a string
    host: "::", tls: none, allowAnonymous: 1               || 5 proxy.tls: must be a mapping && 5 proxy.allowAnonymous: must be true or false
    host: "::", allowPlaintext: 1, allowAnonymous: true    || 5 proxy.allowPlaintext: must be true or false
  `)('is the only one of it, although other fields depend on it: { %s }', (fields, problems) => {
    const callers = `${caller('a', `tokenSha256: ${digest}`)}${caller('b', 'anonymous: true')}`;
    expectProblems(`${minimal}proxy: { ${fields} }\ncallers:\n${callers}`, problems);
  });
});

describe('payments.once', () => {
  const withOnce = (once: string | undefined, request = '30s') => `keys: { source: directory, directory: d }
environments:
  a: { baseUrl: "https://gateway.example", product: gw, timeouts: { request: ${request} } }
payments: { once: { ${once} } }`;

  it.each(rows`
    pay: { path: "/api/v2/pay/{endpoint}", loginFrom: header, signature: RSA-SHA256, readOnly: true, once: true } || pay
    transfer: { readOnly: true }              || transfer
    transfer: { readOnly: true, once: false } || none
  `)('rejects an operation with once that may be sent again: { %s }', (operation, name) => {
    const problem = `5 operations.${name}: is readOnly, so it may be sent again, although with once it makes an order: set one of the two to false`;
    const text = `${withOnce('store: memory')}\noperations: { ${operation} }`;
    expectProblems(text, name === 'none' ? name : problem);
    if (name === 'transfer') expectProblems(text.replace(/payments.*/, ''), 'none');
  });

  it('remembers a payment for longer than it takes', () => {
    const problem = 'payments.once.ttl: must be longer than timeouts.request of a: lengthen it';
    expectProblems(withOnce('store: memory, ttl: 1h', '1h'), problem);
  });

  it.each(rows`
    store: memory                                       || none
    store: "redis://127.0.0.1:6379/3", keyFile: k       || none
    store: "redis://r.example", keyFile: k, allowPlaintext: true || none
    store: "rediss://r.example:6380", keyFile: k, username: u, passwordFile: p, caFile: c || none
    store: memory, timeout: 11s                         || payments.once.timeout: must be at most 10s
    store: memory, ttl: 30m                             || payments.once.ttl: must be at least 1h
    store: "rediss://r.example"                         || keyFile: is required, because the store is not in memory
    store: memory, keyFile: k                           || store: must be a URL, because one of keyFile
    store: "redis://r.example", keyFile: k              || store: must use rediss: unless the host is loopback
    store: "rediss://u:p@r.example", keyFile: k         || store: must be memory or a URL
    store: "rediss://r.example", keyFile: k, username: u || username: requires passwordFile
    store: "redis://127.0.0.1", keyFile: k, caFile: c   || caFile: requires a rediss: URL
  `)('with { %s }: %s', (once, problem) => {
    expectProblems(withOnce(once), problem);
  });
});
