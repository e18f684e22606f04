import { describe, expect, it } from '@jest/globals';
import { Secret } from '../../../src/secret.ts';
import { configOf, digest, minimal, problemsOf, withEnvironment, withKeys, withVault } from './checking.ts';

describe('the shape of a configuration', () => {
  it('fills in every default; durations are milliseconds', () => {
    expect(configOf(minimal)).toMatchObject({
      proxy: {
        host: '127.0.0.1',
        port: 8080,
        maxBodyBytes: 65_536,
        timeouts: { headers: 10_000, shutdown: 35_000 },
      },
      admin: { host: '127.0.0.1', port: 9090 },
      environments: {
        sandbox: { timeouts: { connect: 3000, request: 30_000 }, maxInFlight: 500, endpoints: {} },
      },
      keys: {
        cache: { ttl: 60_000, staleIfError: 43_200_000, negativeTtl: 10_000, maxEntries: 10_000 },
        rotationGracePeriod: 86_400_000,
      },
      signing: { maxQueue: 200 },
      callers: [],
    });
  });

  it.each([
    ['500ms', 500],
    ['3s', 3000],
    ['15m', 900_000],
    ['12h', 43_200_000],
    ['7d', 604_800_000],
    ['24d', 2_073_600_000],
  ])('reads %s as %i milliseconds', (text, milliseconds) => {
    expect(
      configOf(withKeys(`{ source: directory, directory: d, rotationGracePeriod: ${text} }`)).keys
        .rotationGracePeriod,
    ).toBe(milliseconds);
  });

  it.each([
    ['3', 'must be a duration with a unit, such as 3s'],
    ['3 s', 'must be a duration with a unit, such as 500ms, 3s, 15m, 12h or 7d'],
    ['-3s', 'must be a duration with a unit, such as 500ms, 3s, 15m, 12h or 7d'],
    ['1w', 'must be a duration with a unit, such as 500ms, 3s, 15m, 12h or 7d'],
    ['25d', 'must be at most 24d'],
  ])('rejects the duration %s', (text, message) => {
    expect(problemsOf(withKeys(`{ source: directory, directory: d, rotationGracePeriod: ${text} }`))).toEqual(
      [`2 keys.rotationGracePeriod: ${message}`],
    );
  });

  it('rejects a timeout of zero, which would mean no timeout', () => {
    expect(problemsOf(`${minimal}proxy: { timeouts: { headers: 0s } }`)).toEqual([
      '5 proxy.timeouts.headers: must be more than zero',
    ]);
  });

  it('accepts a number from a variable', () => {
    expect(configOf(`${minimal}proxy: { port: "\${PORT}" }`, { PORT: '8081' }).proxy.port).toBe(8081);
  });

  it.each(['', '1e3', '0x10', '80.5', '-1', '70000', ' 80'])('rejects %j as a port', (value) => {
    expect(problemsOf(`${minimal}proxy: { port: "\${PORT}" }`, { PORT: value })).toHaveLength(1);
  });

  it('reports each unknown key on its own line and suggests the nearest known one', () => {
    expect(problemsOf(`${minimal}proxy:\n  prot: 80\n  theme: red\nadmim: {}`)).toEqual([
      '6 proxy.prot: is not a known key; did you mean "port"?',
      '7 proxy.theme: is not a known key',
      '8 admim: is not a known key; did you mean "admin"?',
    ]);
  });

  it('suggests only what is really near', () => {
    expect(problemsOf(`${minimal}loging: {}\nencryption: {}`)).toEqual([
      '5 loging: is not a known key; did you mean "log"?',
      '6 encryption: is not a known key',
    ]);
  });

  it('distinguishes a key of another alternative from an unknown key', () => {
    expect(problemsOf(withKeys('{ source: directory, directory: d, vault: {}, direcory: e }'))).toEqual([
      '2 keys.vault: is not allowed in combination with its sibling keys: remove it',
      '2 keys.direcory: is not a known key; did you mean "directory"?',
    ]);
  });

  it('says that a second kind of credential or source of a key set is one too many', () => {
    const caller = `callers: [{ name: a, credentials: [{ tokenSha256: zz, jwt: {} }] }]\n`;
    const issuer = `jwtIssuers: { i: { issuer: "https://i", audience: a, jwks: { url: "ftp://i", file: f } } }\n`;
    const tooMany = 'is not allowed in combination with its sibling keys: remove it';
    expect(problemsOf(minimal + caller)).toContainEqual(`5 callers[0].credentials[0].jwt: ${tooMany}`);
    expect(problemsOf(minimal + issuer)).toContainEqual(`5 jwtIssuers.i.jwks.url: ${tooMany}`);
  });

  it('suggests the key that the chosen alternative has for a similar one of another', () => {
    const auth = (fields: string) =>
      withKeys(`{ source: vault, vault: { address: "https://v", auth: { ${fields} } } }`);
    expect(problemsOf(auth('method: kubernetes, role: r, tokenFile: t'))).toEqual([
      '2 keys.vault.auth.tokenFile: is not allowed in combination with its sibling keys; did you mean "jwtFile"?',
    ]);
    expect(problemsOf(auth('method: approle, roleId: r, secretIdFile: s, tokenFile: t'))).toEqual([
      '2 keys.vault.auth.tokenFile: is not allowed in combination with its sibling keys: remove it',
    ]);
  });

  it('puts a name into the path of a problem so that it can be read', () => {
    expect(
      problemsOf(withEnvironment('baseUrl: "https://g", product: gw, endpoints: { a.b: [], "1": {} }')),
    ).toEqual([
      '3 environments.sandbox.endpoints["1"]: must be a string',
      '3 environments.sandbox.endpoints["a.b"]: must be a string',
    ]);
  });

  it('reports missing, empty and wrongly typed values', () => {
    const text =
      'environments:\n  sandbox:\n    baseUrl: 5\n    endpoints:\ncallers: {}\nkeys: 1\nproxy: { allowAnonymous: 1 }';
    expect(problemsOf(text)).toEqual([
      '2 environments.sandbox.product: is missing: it must be a string',
      '3 environments.sandbox.baseUrl: must be a string: put it in quotes',
      '4 environments.sandbox.endpoints: is empty: set it to a mapping of names to values, or remove the key',
      '5 callers: must be a list',
      '6 keys: must be a mapping of keys to values',
      '7 proxy.allowAnonymous: must be true or false',
    ]);
  });

  it.each(['', 'null', '[]', 'text', '5'])('reports what the file must contain if it contains %j', (text) => {
    expect(problemsOf(text)).toEqual(['1 : must be a mapping that contains at least environments and keys']);
  });

  it('requires at least one environment', () => {
    expect(problemsOf('environments: {}\nkeys: { source: directory, directory: d }')).toEqual([
      '1 environments: requires at least one environment',
    ]);
  });

  it('creates maps without a prototype, so that a name from a request finds only entries of the file', () => {
    const { environments, operations } = configOf(minimal);
    const names = [environments, operations, environments['sandbox']?.endpoints];
    expect(names.map((map) => map !== undefined && 'constructor' in map)).toEqual([false, false, false]);
  });

  it('reads an unquoted endpoint id as text', () => {
    expect(
      configOf(withEnvironment('baseUrl: "https://g", product: gw, endpoints: { 1234: acme }')).environments,
    ).toEqual({ sandbox: expect.objectContaining({ endpoints: { '1234': 'acme' } }) });
  });

  it.each([
    ['ftp://gateway.example', 'must be an absolute URL'],
    ['gateway.example', 'must be an absolute URL'],
    ['//gateway.example', 'must be an absolute URL'],
    ['https:gateway.example', 'must be an absolute URL'],
    ['https://gateway.example\\\\evil', 'must be an absolute URL'],
    ['https://gate way.example', 'must be an absolute URL'],
    ['https://gateway.example:99999', 'must be an absolute URL'],
    ['https://user:hunter2@gateway.example', 'must not contain credentials'],
    ['https://@gateway.example', 'must not contain credentials'],
    ['https://gateway.example/?a=b', 'must not contain a query'],
    ['https://gateway.example/?', 'must not contain a query'],
    ['https://gateway.example/#a', 'must not contain a fragment'],
    ['https://gateway.example./', 'must not have a trailing dot in the host'],
    ['https://gateway.example/a/../b', 'must have a plain path'],
    ['https://gateway.example/%2e%2e/b', 'must have a plain path'],
    ['https://gateway.example/ü', 'must have a plain path'],
    ['http://gateway.example', 'must use https unless the host is loopback'],
    ['http://localhost.gateway.example', 'must use https unless the host is loopback'],
    ['http://127.gateway.example', 'must use https unless the host is loopback'],
    ['http://10.0.0.1', 'must use https unless the host is loopback'],
  ])('rejects the base URL %s', (baseUrl, message) => {
    const problems = problemsOf(withEnvironment(`product: gw, baseUrl: "${baseUrl}"`));
    expect(problems).toEqual([expect.stringContaining(`3 environments.sandbox.baseUrl: ${message}`)]);
    expect(problems.join()).not.toContain('hunter2');
  });

  it.each([
    'https://gateway.example',
    'https://gateway.example/',
    'https://gateway.example:8443/pay/ment',
    'http://127.0.0.1:8090',
    'http://127.9.9.9',
    'http://[::1]:8090',
    'http://localhost:8090/gateway',
  ])('accepts the base URL %s', (baseUrl) => {
    expect(problemsOf(withEnvironment(`product: gw, baseUrl: "${baseUrl}"`))).toEqual([]);
  });

  it('accepts plain HTTP to another machine with allowInsecureHttp', () => {
    const text = withEnvironment('product: gw, baseUrl: "http://gateway.example", allowInsecureHttp: true');
    expect(problemsOf(text)).toEqual([]);
  });

  it('rejects a connect timeout longer than the request timeout', () => {
    const text = withEnvironment('baseUrl: "https://g", product: gw, timeouts: { connect: 5s, request: 4s }');
    expect(problemsOf(text)).toEqual([expect.stringContaining('3 environments.sandbox.timeouts.connect: ')]);
    expect(problemsOf(text.replace('5s', '4s'))).toEqual([]);
  });

  it.each(['Set Cookie', 'Transfer-Encoding', 'x-request-id', 'Countersign-Outcome', 'Proxy-Status'])(
    'rejects %s as a response header to forward',
    (name) => {
      expect(
        problemsOf(withEnvironment(`baseUrl: "https://g", product: gw, responseHeaders: ["${name}"]`)),
      ).toEqual([expect.stringContaining('3 environments.sandbox.responseHeaders[0]: must ')]);
    },
  );

  it('reads response headers to forward in whatever case', () => {
    const { environments } = configOf(
      withEnvironment('baseUrl: "https://g", product: gw, responseHeaders: [X-Trace]'),
    );
    expect(environments['sandbox']?.responseHeaders).toEqual(['x-trace']);
  });

  it('rejects a staleIfError shorter than the ttl', () => {
    const text = withKeys('{ source: directory, directory: d, cache: { ttl: 2m, staleIfError: 119s } }');
    expect(problemsOf(text)).toEqual(['2 keys.cache.staleIfError: must not be shorter than ttl']);
    expect(problemsOf(text.replace('119s', '120s'))).toEqual([]);
  });

  it.each(['proxy', 'admin'])('rejects revocation lists of %s.tls without the CA that signs them', (part) => {
    const text = `${minimal}${part}: { tls: { certFile: c, keyFile: k, clientCrlFile: l, clientCaFile: a } }`;
    expect(problemsOf(text)).toEqual([]);
    expect(problemsOf(text.replace(', clientCaFile: a', ''))).toEqual([
      `5 ${part}.tls.clientCrlFile: requires clientCaFile, whose CAs have signed the lists`,
    ]);
  });

  it('rejects an audit trail on standard output that is to be written through to a disk', () => {
    const text = `${minimal}audit: { keyFile: k, sync: true }`;
    expect(problemsOf(text)).toEqual([
      '5 audit.sync: needs a directory: standard output cannot be written through to a disk',
    ]);
    for (const possible of [
      text.replace('true', 'false'),
      text.replace('keyFile', 'directory: trail, keyFile'),
    ])
      expect(problemsOf(possible)).toEqual([]);
  });

  it.each([
    ['a', true],
    ['a_b.svc-1', true],
    ['a'.repeat(253), true],
    ['a'.repeat(254), false],
    ['a:8080', false],
    ['http://a', false],
    ['a.', false],
    ['-a', false],
  ])('may allow the host %s: %s', (host, possible) => {
    expect(problemsOf(`${minimal}admin: { allowedHosts: ["${host}"] }`)).toEqual(
      possible ? [] : ['5 admin.allowedHosts[0]: must be a host name without scheme and port'],
    );
  });

  it('lists the kinds of credentials if it finds another', () => {
    const credentials = `[{ tokenSha: x }, {}, 3, { certificateUri: u, certificateDns: d }]`;
    const expected =
      'must be exactly one of tokenSha256, certificateUri, certificateDns, jwt and anonymous: true';
    expect(problemsOf(`${minimal}callers: [{ name: a, credentials: ${credentials} }]`)).toEqual(
      [0, 1, 2, 3].map((index) => `5 callers[0].credentials[${index}]: ${expected}`),
    );
  });

  it.each([
    ['tokenSha256: "2F"', 'tokenSha256: must be 64 lowercase hex digits'],
    ['tokenSha256: 12', 'tokenSha256: must be a string: put it in quotes'],
    [
      'tokenSha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
      'tokenSha256: is the digest of an empty token',
    ],
    ['anonymous: false', 'anonymous: must be true'],
    // printf '\n' | sha256sum, and the same with a carriage return
    [
      'tokenSha256: 01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b',
      'tokenSha256: is the digest of an empty token',
    ],
    [
      'tokenSha256: 7eb70257593da06f682a3ddda54a9d260d4fc514f645237f5ca74b08f8da61a6',
      'tokenSha256: is the digest of an empty token',
    ],
    // What sha256sum prints behind a hash
    [
      `tokenSha256: "${'0'.repeat(64)}  -"`,
      'tokenSha256: must be 64 lowercase hex digits and nothing else: printf %s "$TOKEN" | sha256sum | cut -c1-64',
    ],
  ])('reports the problem of the credential %s', (credential, message) => {
    expect(problemsOf(`${minimal}callers: [{ name: a, credentials: [{ ${credential} }] }]`)).toEqual([
      expect.stringContaining(`5 callers[0].credentials[0].${message}`),
    ]);
  });

  it.each(['a*b', '*a', '**', 'ä', 'a/b', '', 'a'.repeat(129)])('rejects the login pattern %j', (pattern) => {
    const grant = `{ environments: ["*"], operations: ["*"], logins: ["${pattern}"] }`;
    const caller = `{ name: a, credentials: [{ tokenSha256: ${digest} }], allow: [${grant}] }`;
    expect(problemsOf(`${minimal}callers: [${caller}]`)).toEqual([
      expect.stringContaining('5 callers[0].allow[0].logins[0]: '),
    ]);
  });
});

describe('the Vault part of a configuration', () => {
  it('hides a token as soon as it is read', () => {
    const { keys } = configOf(withVault('', 'method: token, token: "${T}"'), { T: 'hvs.marked' });
    expect(keys).toMatchObject({ vault: { auth: { token: expect.any(Secret) } } });
    expect(JSON.stringify(keys)).not.toContain('hvs.marked');
  });

  it.each([
    ['method: token', ['requires exactly one of token and tokenFile']],
    ['method: token, token: t, tokenFile: f', ['requires exactly one of token and tokenFile']],
    ['method: approle, secretIdFile: s', ['requires exactly one of roleId and roleIdFile']],
    [
      'method: approle, roleId: r, roleIdFile: f, secretIdFile: s',
      ['requires exactly one of roleId and roleIdFile'],
    ],
  ])('rejects the login %s', (auth, messages) => {
    expect(problemsOf(withVault('', auth))).toEqual(
      messages.map((message) => `2 keys.vault.auth: ${message}`),
    );
  });

  it('requires the file of the secret ID', () => {
    expect(problemsOf(withVault('', 'method: approle, roleId: r'))).toEqual([
      '2 keys.vault.auth.secretIdFile: is missing: it must be a string',
    ]);
  });

  it.each([
    'method: token, tokenFile: f',
    'method: approle, roleId: r, secretIdFile: s',
    'method: approle, roleIdFile: r, secretIdFile: s',
    'method: kubernetes, role: r, mount: kubernetes/eu-1',
  ])('accepts the login %s', (auth) => {
    expect(problemsOf(withVault('', auth))).toEqual([]);
  });

  it('lists the login methods if it finds another', () => {
    expect(problemsOf(withVault('', 'method: password'))).toEqual([
      '2 keys.vault.auth.method: must be token or approle or kubernetes',
    ]);
  });

  it.each([
    'gateway/{environment}/{login}',
    '{login}/{environment}',
    'gateway/{environment}.{login}',
    'gateway/{login}_x-{environment}',
    'v2/gw-{environment}/key-{login}/current',
  ])('accepts the path %s', (path) => {
    expect(problemsOf(withVault(`path: "${path}"`))).toEqual([]);
  });

  it.each([
    ['gateway/{login}', 'must contain {environment} and {login}, each once'],
    ['gateway/{environment}', 'must contain {environment} and {login}, each once'],
    ['{environment}/{login}/{login}', 'must contain {environment} and {login}, each once'],
    ['{environment}/{login}/{environment}', 'must contain {environment} and {login}, each once'],
    ['{environment}/../{login}', 'must be plain segments'],
    ['./{environment}/{login}', 'must be plain segments'],
    ['{environment}//{login}', 'must be plain segments'],
    ['/{environment}/{login}', 'must be plain segments'],
    ['{environment}/{login}/', 'must be plain segments'],
    ['{environment}/{login}?version=1', 'must be plain segments'],
    ['{environment}/{login}#a', 'must be plain segments'],
    ['{environment}/{login}/%2e%2e', 'must be plain segments'],
    ['{environment}/{login}/{other}', 'must be plain segments'],
    ['{environment}\\\\{login}', 'must be plain segments'],
  ])('rejects the path %s', (path, message) => {
    expect(problemsOf(withVault(`path: "${path}"`))).toEqual([
      expect.stringContaining(`2 keys.vault.path: ${message}`),
    ]);
  });

  it.each(['{environment}{login}', '{environment}-{login}', '{login}-x-{environment}'])(
    'rejects the path %s, with which two environments could share a key',
    (path) => {
      expect(problemsOf(withVault(`path: "${path}"`))).toEqual([
        expect.stringContaining('2 keys.vault.path: requires "/", "." or "_" between'),
      ]);
    },
  );

  it.each([
    'mount: "../sys"',
    'mount: "a/./b"',
    'mount: "/kv"',
    'mount: "kv?x"',
    'namespace: "a b"',
    'certFile: c.pem',
    'keyFile: k.pem',
    'timeout: 0s',
  ])('rejects %s', (fields) => {
    expect(problemsOf(withVault(fields))).toHaveLength(1);
  });

  it.each([
    'http://vault.example',
    'vault.example:8200',
    'https://token@vault.example',
    'https://vault.example?x',
  ])('rejects the address %s', (address) => {
    const vault = `{ address: "${address}", auth: { method: kubernetes, role: r } }`;
    expect(problemsOf(withKeys(`{ source: vault, vault: ${vault} }`))).toEqual([
      expect.stringContaining('2 keys.vault.address: must '),
    ]);
  });

  it('accepts plain HTTP to a Vault on this machine', () => {
    const vault = '{ address: "http://127.0.0.1:8200", auth: { method: kubernetes, role: r } }';
    expect(problemsOf(withKeys(`{ source: vault, vault: ${vault} }`))).toEqual([]);
  });
});
