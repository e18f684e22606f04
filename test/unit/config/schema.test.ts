import { describe, expect, it } from '@jest/globals';
import { Secret } from '../../../src/secret.ts';
import {
  configOf,
  digest,
  expectProblems,
  minimal,
  problemsOf,
  rows,
  withEnvironment,
  withKeys,
  withVault,
} from './checking.ts';

const directory = (fields: string): string => withKeys(`{ source: directory, directory: d, ${fields} }`);
const gateway = (fields: string): string => withEnvironment(`baseUrl: "https://g", product: gw, ${fields}`);

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

  it.each(rows`
    500ms || 500
    3s    || 3000
    15m   || 900000
    12h   || 43200000
    24d   || 2073600000
  `)('reads %s as %s milliseconds', (text, milliseconds) => {
    const { rotationGracePeriod } = configOf(directory(`rotationGracePeriod: ${text}`)).keys;
    expect(rotationGracePeriod).toBe(Number(milliseconds));
  });

  it('accepts a number from a variable', () => {
    expect(configOf(`${minimal}proxy: { port: "\${PORT}" }`, { PORT: '8081' }).proxy.port).toBe(8081);
  });

  it.each(['', '1e3', '0x10', '80.5', '-1', '70000', ' 80'])('rejects %j as a port', (value) => {
    expect(problemsOf(`${minimal}proxy: { port: "\${PORT}" }`, { PORT: value })).toHaveLength(1);
  });

  it.each(rows`
    proxy: { timeouts: { headers: 0s } } || 5 proxy.timeouts.headers: must be more than zero
    proxy: { prot: 80, theme: red }      || 5 proxy.prot: is not a known key; did you mean "port"? && 5 proxy.theme: is not a known key
    singing: {}                          || 5 singing: is not a known key; did you mean "signing"?
    admin: { tokenSha256: "the token" }  || 5 admin.tokenSha256: must be 64 lowercase hex digits
    admin: { tokenSha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 } || 5 admin.tokenSha256: is the digest of an empty token
    admin: { runbookUrl: "javascript:alert(1)" }       || 5 admin.runbookUrl: must be an absolute URL
    admin: { runbookUrl: "https://wiki.example/r#top" } || 5 admin.runbookUrl: must not contain a fragment
    admin: { runbookUrl: "https://wiki.example/r.md" } || none
    proxy: { tls: { certFile: c, keyFile: k, clientCrlFile: l } }                   || 5 proxy.tls.clientCrlFile: requires clientCaFile, whose CAs have signed the lists
    admin: { tls: { certFile: c, keyFile: k, clientCrlFile: l, clientCaFile: a } }  || none
    audit: { keyFile: k, sync: true }                   || 5 audit.sync: needs a directory: standard output cannot be written through to a disk
    audit: { keyFile: k, sync: true, directory: trail } || none
    jwtIssuers: { i: { issuer: "https://i", audience: a, jwks: { url: "ftp://i", file: f } } } || 5 jwtIssuers.i.jwks.url: is not allowed in combination with its sibling keys: remove it
  `)('with { %s }: %s', (added, problems) => {
    expectProblems(minimal + added, problems);
  });

  it('suggests only what is really near', () => {
    expect(problemsOf(`${minimal}encryption: {}`)).toEqual(['5 encryption: is not a known key']);
  });

  it('puts a name into the path of a problem so that it can be read', () => {
    expect(problemsOf(gateway('endpoints: { a.b: [], "1": {} }'))).toEqual([
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
    expectProblems(
      'environments: {}\nkeys: { source: directory, directory: d }',
      '1 environments: requires at least one environment',
    );
  });

  it('creates maps without a prototype, so that a name from a request finds only entries of the file', () => {
    const { environments, operations } = configOf(minimal);
    const names = [environments, operations, environments['sandbox']?.endpoints];
    expect(names.map((map) => map !== undefined && 'constructor' in map)).toEqual([false, false, false]);
  });

  it.each(rows`
    ftp://gateway.example           || must be an absolute URL
    https:gateway.example           || must be an absolute URL
    https://gateway.example\\evil   || must be an absolute URL
    https://u:hunter2@g.example     || must not contain credentials
    https://gateway.example/?a=b    || must not contain a query
    https://gateway.example/#a      || must not contain a fragment
    https://gateway.example./       || must not have a trailing dot in the host
    https://gateway.example/a/../b  || must have a plain path
    https://gateway.example/ü       || must have a plain path
    http://gateway.example          || must use https unless the host is loopback
    http://localhost.gateway.example || must use https unless the host is loopback
    https://gateway.example:8443/a/b || none
    http://127.9.9.9                || none
    http://[::1]:8090               || none
    http://localhost:8090/gateway   || none
  `)('the base URL %s: %s', (baseUrl, problem) => {
    const text = withEnvironment(`product: gw, baseUrl: "${baseUrl}"`);
    expectProblems(text, problem === 'none' ? problem : `3 environments.sandbox.baseUrl: ${problem}`);
    expect(problemsOf(text).join()).not.toContain('hunter2');
  });

  it.each(rows`
    allowInsecureHttp: true, baseUrl: "http://gateway.example"              || none
    baseUrl: "https://g", timeouts: { connect: 5s, request: 4s }            || timeouts.connect:
    baseUrl: "https://g", timeouts: { connect: 4s, request: 4s }            || none
    baseUrl: "https://g", responseHeaders: ["Set Cookie"]                   || responseHeaders[0]: must
    baseUrl: "https://g", responseHeaders: [Transfer-Encoding, X-Trace]     || responseHeaders[0]: must
    baseUrl: "https://g", responseHeaders: [x-request-id, Proxy-Status]     || responseHeaders[0]: must && responseHeaders[1]: must
    baseUrl: "https://g", responseHeaders: [Countersign-Outcome, Content-Length] || responseHeaders[0]: must && responseHeaders[1]: must
  `)('an environment with { %s }: %s', (fields, problems) => {
    expectProblems(withEnvironment(`product: gw, ${fields}`), problems);
  });

  it('reads response headers in whatever case, and an unquoted endpoint id as text', () => {
    const { environments } = configOf(gateway('responseHeaders: [X-Trace], endpoints: { 1234: acme }'));
    expect(environments['sandbox']).toMatchObject({
      responseHeaders: ['x-trace'],
      endpoints: { '1234': 'acme' },
    });
  });

  it.each(rows`
    rotationGracePeriod: 3                  || 2 keys.rotationGracePeriod: must be a duration with a unit, such as 3s
    rotationGracePeriod: 1w                 || 2 keys.rotationGracePeriod: must be a duration with a unit
    rotationGracePeriod: 25d                || 2 keys.rotationGracePeriod: must be at most 24d
    cache: { ttl: 2m, staleIfError: 119s }  || 2 keys.cache.staleIfError: must not be shorter than ttl
    cache: { ttl: 2m, staleIfError: 120s }  || none
    vault: {}, direcory: e                  || 2 keys.vault: is not allowed in combination with its sibling keys: remove it && 2 keys.direcory: is not a known key; did you mean "directory"?
  `)('keys with { %s }: %s', (fields, problems) => {
    expectProblems(directory(fields), problems);
  });

  it.each([
    ['a_b.svc-1', true],
    ['a'.repeat(253), true],
    ['a'.repeat(254), false],
    ['a:8080', false],
    ['http://a', false],
    ['a.', false],
  ])('may allow the host %s: %s', (host, possible) => {
    const problem = '5 admin.allowedHosts[0]: must be a host name without scheme and port';
    expectProblems(`${minimal}admin: { allowedHosts: ["${host}"] }`, possible ? 'none' : problem);
  });

  it('lists the kinds of credentials if it finds another', () => {
    const credentials = `[{ tokenSha: x }, {}, 3, { certificateUri: u, certificateDns: d }]`;
    const expected =
      'must be exactly one of tokenSha256, certificateUri, certificateDns, jwt and anonymous: true';
    expect(problemsOf(`${minimal}callers: [{ name: a, credentials: ${credentials} }]`)).toEqual(
      [0, 1, 2, 3].map((index) => `5 callers[0].credentials[${index}]: ${expected}`),
    );
  });

  // The digests are those of nothing, of a line feed, and of one with a carriage return.
  it.each(rows`
    tokenSha256: "2F"                 || tokenSha256: must be 64 lowercase hex digits
    tokenSha256: 12                   || tokenSha256: must be a string: put it in quotes
    tokenSha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 || tokenSha256: is the digest of an empty token
    tokenSha256: 01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b || tokenSha256: is the digest of an empty token
    tokenSha256: 7eb70257593da06f682a3ddda54a9d260d4fc514f645237f5ca74b08f8da61a6 || tokenSha256: is the digest of an empty token
    tokenSha256: "0000000000000000000000000000000000000000000000000000000000000000  -" || tokenSha256: must be 64 lowercase hex digits and nothing else: printf %s "$TOKEN" | sha256sum | cut -c1-64
    anonymous: false                  || anonymous: must be true
    tokenSha256: zz, jwt: {}          || tokenSha256: must be && jwt: is not allowed in combination with its sibling keys: remove it
  `)('reports the problem of the credential { %s }', (credential, problems) => {
    expectProblems(`${minimal}callers: [{ name: a, credentials: [{ ${credential} }] }]`, problems);
  });

  it.each(['a*b', '*a', '**', 'ä', 'a/b', '', 'a'.repeat(129)])('rejects the login pattern %j', (pattern) => {
    const grant = `{ environments: ["*"], operations: ["*"], logins: ["${pattern}"] }`;
    const caller = `{ name: a, credentials: [{ tokenSha256: ${digest} }], allow: [${grant}] }`;
    expectProblems(`${minimal}callers: [${caller}]`, '5 callers[0].allow[0].logins[0]: ');
  });
});

describe('the Vault part of a configuration', () => {
  it('hides a token as soon as it is read', () => {
    const { keys } = configOf(withVault('', 'method: token, token: "${T}"'), { T: 'hvs.marked' });
    expect(keys).toMatchObject({ vault: { auth: { token: expect.any(Secret) } } });
    expect(JSON.stringify(keys)).not.toContain('hvs.marked');
  });

  it.each(rows`
    method: token                        || 2 keys.vault.auth: requires exactly one of token and tokenFile
    method: token, token: t, tokenFile: f || 2 keys.vault.auth: requires exactly one of token and tokenFile
    method: token, tokenFile: f          || none
    method: approle, secretIdFile: s     || 2 keys.vault.auth: requires exactly one of roleId and roleIdFile
    method: approle, roleId: r, roleIdFile: f, secretIdFile: s || 2 keys.vault.auth: requires exactly one of roleId and roleIdFile
    method: approle, roleId: r           || 2 keys.vault.auth.secretIdFile: is missing: it must be a string
    method: approle, roleId: r, secretIdFile: s     || none
    method: password                     || 2 keys.vault.auth.method: must be token or approle or kubernetes
    method: kubernetes, role: r, tokenFile: t || 2 keys.vault.auth.tokenFile: is not allowed in combination with its sibling keys: remove it
    method: approle, roleId: r, secretIdFile: s, tokenFile: t || 2 keys.vault.auth.tokenFile: is not allowed in combination with its sibling keys: remove it
  `)('the login { %s }: %s', (auth, problem) => {
    expectProblems(withVault('', auth), problem);
  });

  it.each(rows`
    gateway/{environment}/{login}       || none
    gateway/{environment}.{login}       || none
    v2/gw-{environment}/key-{login}/now || none
    gateway/{login}                     || must contain {environment} and {login}, each once
    {environment}/{login}/{login}       || must contain {environment} and {login}, each once
    {environment}/../{login}            || must be plain segments
    {environment}//{login}              || must be plain segments
    {environment}/{login}?version=1     || must be plain segments
    {environment}\\{login}              || must be plain segments
    {environment}{login}                || requires "/", "." or "_" between
    {environment}-{login}               || requires "/", "." or "_" between
    {login}-x-{environment}             || requires "/", "." or "_" between
  `)('the path %s: %s', (path, problem) => {
    // Without a separator two environments could share a key.
    expectProblems(
      withVault(`path: "${path}"`),
      problem === 'none' ? problem : `2 keys.vault.path: ${problem}`,
    );
  });

  it.each([
    'mount: "../sys"',
    'mount: "/kv"',
    'namespace: "a b"',
    'certFile: c.pem',
    'keyFile: k.pem',
    'timeout: 0s',
  ])('rejects %s', (fields) => {
    expect(problemsOf(withVault(fields))).toHaveLength(1);
  });

  it.each(rows`
    http://vault.example        || 2 keys.vault.address: must
    http://127.0.0.1:8200       || none
  `)('the address %s: %s', (address, problem) => {
    const vault = `{ address: "${address}", auth: { method: kubernetes, role: r } }`;
    expectProblems(withKeys(`{ source: vault, vault: ${vault} }`), problem);
  });
});
