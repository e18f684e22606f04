import { describe, expect, it } from '@jest/globals';
import { expectProblems, minimal, problemsOf, rows, withEnvironment, withVault } from './checking.ts';

const proxy = 'egressProxy: { url: "http://egress.internal:3128" }';
const gateway = (fields: string, baseUrl = 'https://gateway.example') =>
  withEnvironment(`baseUrl: "${baseUrl}", product: gw, ${fields}`);

describe('an egress proxy', () => {
  const at = 'environments.sandbox.egressProxy';

  it.each(rows`
    url: "http://egress.internal:3128"                   || none
    url: "https://egress.internal", caFile: ca.pem       || none
    url: "http://e", username: pay, password: secret     || none
    url: "socks5://egress.internal"                      || url: must be an absolute URL such as http://proxy.example:3128
    url: "http://egress.internal/path"                   || url: must not have a path
    url: "http://pay:secret@egress.internal"             || url: must not contain credentials or "@": remove them
    username: pay                                        || url: is missing
    url: "http://e", caFile: ca.pem                      || caFile: requires an https: URL of the proxy
    url: "http://e", username: "pay:roll", password: a   || username: must be 1 to 255 characters without ":"
  `)('with { %s }: %s', (fields, problem) => {
    const expected = problem === 'none' ? problem : `3 ${at}.${problem}`;
    expectProblems(gateway(`egressProxy: { ${fields} }`), expected);
  });

  it.each(['username: pay', 'passwordFile: p', 'username: pay, password: a, passwordFile: b'])(
    'cannot have { %s } alone',
    (fields) => {
      const text = gateway(`egressProxy: { url: "http://e", ${fields} }`);
      const needed = 'requires username with exactly one of password and passwordFile, or none of them';
      expectProblems(text, `3 ${at}: ${needed}`);
    },
  );

  const text = 'must use https, because connections go through an egressProxy';
  const issuer = (fields: string) => `${minimal}jwtIssuers: { idp: { audience: a, ${proxy}, ${fields} } }\n`;
  const notForIssuer = 'jwtIssuers.idp.egressProxy: must not be set for a server without https';

  it.each([
    [gateway(proxy, 'http://127.0.0.1:8091'), `environments.sandbox.baseUrl: ${text}`],
    [withVault(proxy), 'none'],
    [withVault(proxy).replace('https://vault', 'http://127.0.0.1'), `keys.vault.address: ${text}`],
    [issuer('issuer: "http://127.0.0.1:1"'), notForIssuer],
    // The server that has the keys counts.
    [issuer('issuer: "http://127.0.0.1:1", jwks: { url: "https://keys.example/jwks" }'), 'none'],
    [issuer('issuer: "https://idp", jwks: { url: "http://127.0.0.1:1/jwks" }'), notForIssuer],
  ])('cannot be used for a server without https: it could read the forms (%#)', (config, problem) => {
    expectProblems(config.replace('127.0.0.1.example', '127.0.0.1'), problem);
  });
});

it.each(rows`
  https || certFile: c, keyFile: k || none
  https || certFile: c             || 3 environments.sandbox: requires both certFile and keyFile, or neither
  https || keyFile: k              || 3 environments.sandbox: requires both certFile and keyFile, or neither
  http  || certFile: c, keyFile: k || 3 environments.sandbox.baseUrl: must use https, because there is a client certificate
`)('a gateway by %s with { %s }: %s', (scheme, fields, problem) => {
  expectProblems(gateway(fields, `${scheme}://127.0.0.1`), problem);
});

describe('tracing', () => {
  it.each(rows`
    otlp: "http://c.internal:4318"              || none
    otlp: "https://c", sampleRatio: 1           || none
    otlp: "https://c", sampleRatio: "0.25"      || none
    otlp: "https://c", headers: { Authorization: "Bearer x", X-Scope: p }, caFile: ca.pem, minVersion: "1.3" || none
    otlp: "https://c", egressProxy: { url: "http://egress.internal:3128" } || none
    otlp: "http://127.0.0.1:4318", headers: { Authorization: x } || none
    sampleRatio: 0.1                            || tracing.otlp: is missing
    otlp: "collector:4318"                      || tracing.otlp: must be an absolute URL
    otlp: "https://user:secret@collector"       || tracing.otlp: must not contain credentials or "@"
    otlp: "https://c", sampleRatio: 1.5         || tracing.sampleRatio:
    otlp: "https://c", headers: { "a b": x }    || tracing.headers
    otlp: "https://c", headers: { Content-Length: "1" } || tracing.headers
    otlp: "https://c", headers: { Authorization: "x\r\nHost: y" } || tracing.headers.Authorization: must have values
    otlp: "http://c", headers: { Authorization: x } || tracing.otlp: must use https unless the host is loopback, because headers hold credentials
    otlp: "http://c", egressProxy: { url: "http://egress.internal:3128" } || tracing.egressProxy: must not be set for a receiver without https
  `)('with { %s }: %s', (fields, problem) => {
    expectProblems(`${minimal}tracing: { ${fields} }\n`, problem);
  });

  it('has no header in a problem', () => {
    const headers = 'headers: { Authorization: "secret-é" }';
    const problems = problemsOf(`${minimal}tracing: { otlp: "https://c", ${headers} }\n`);
    expect([problems.length, problems.join()]).toEqual([1, expect.not.stringContaining('secret-')]);
  });
});

const idp = `${minimal}jwtIssuers:\n  idp: { audience: countersign, issuer: "https://idp.example" }\n`;
const callers = (...credentials: (string | undefined)[]): string =>
  `callers:\n${credentials.map((jwt, index) => `  - { name: c${index}, credentials: [{ jwt: { ${jwt} } }] }\n`).join('')}`;

describe('a JWT issuer', () => {
  it.each(rows`
    issuer: "https://idp.example/realms/pay/"     || none
    issuer: kubernetes/serviceaccount, jwks: { file: keys.json }              || none
    issuer: "https://idp.example", jwks: { url: "https://keys.example/jwks" } || none
    issuer: "https://i", caFile: ca.pem, tokenFile: token, leeway: 5m, maxStale: 1h || none
    issuer: "https://i", algorithms: [RS512, PS384, ES384, ES512, EdDSA]      || none
    issuer: "http://idp.example"                  || issuer: must be an https URL without query for discovery
    issuer: idp                                   || issuer: must be an https URL without query for discovery
    issuer: i, jwks: { url: "http://keys.example" } || jwks.url: must use https unless the host is loopback
    issuer: i, jwks: { url: "https://k.example", file: f } || jwks: must be exactly one of url and file
    issuer: i, jwks: {}                           || jwks: must be exactly one of url and file
    issuer: i, jwks: { file: f }, caFile: c       || idp: must not have caFile, tokenFile or egressProxy together with jwks.file
    issuer: "https://idp.example", leeway: 301s   || leeway: must be at most 5m
    issuer: "https://idp.example", maxStale: 59s  || maxStale: must be at least 1m
    issuer: "https://idp.example", algorithms: [] || algorithms: must not be empty
  `)('with { %s }: %s', (fields, problem) => {
    expectProblems(`${minimal}jwtIssuers:\n  idp: { audience: countersign, ${fields} }\n`, problem);
  });

  it.each(['none', 'HS256', 'rs256'])('cannot use %s', (algorithm) => {
    expectProblems(
      idp.replace('audience', `algorithms: [${algorithm}], audience`),
      'algorithms[0]: must be one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA; a token without signature or with HMAC is never accepted',
    );
  });

  it('needs an audience, and cannot be configured twice, since a token names it only by its issuer', () => {
    const needed = 'jwtIssuers.idp.audience: is missing: it must be a string';
    expectProblems(idp.replace('audience: countersign,', ''), needed);
    expectProblems(
      `${idp}  other: { issuer: "https://idp.example", audience: x }\n`,
      'jwtIssuers.other.issuer: duplicate issuer (jwtIssuers.idp): remove one of the two',
    );
  });
});

describe('a JWT credential', () => {
  it.each(rows`
    issuer: ipd, subject: a                || issuer: unknown entry of jwtIssuers
    issuer: idp                            || must have a subject or claims
    issuer: idp, claims: {}                || must have a subject or claims
    issuer: idp, subject: "*"              || subject: must be a value, or a prefix of at least one character followed by *
    issuer: idp, subject: ""               || subject: must be a value, or a prefix
    issuer: idp, claims: { team: "*" }     || claims.team: must be a value, or a prefix
    issuer: idp, claims: { admin: true }   || claims.admin: must be a string
  `)('cannot have { %s }', (jwt, problem) => {
    expectProblems(idp + callers(jwt), problem);
  });

  it.each(rows`
    subject: "a:*"             || subject: "a:b"             || overlap
    subject: "a:b"             || subject: "a:*"             || overlap
    subject: "a:b:*"           || subject: "a:*"             || overlap
    subject: "a:*"             || subject: "A:b"             || none
    subject: "a:b:*"           || subject: "a:b"             || none
    subject: a                 || claims: { team: x }        || overlap
    claims: { team: x }        || claims: { group: y }       || overlap
    claims: { team: x }        || claims: { team: "x*" }     || overlap
    claims: { team: x, group: g } || claims: { team: x, group: h } || none
    subject: a, claims: { team: x } || subject: a, claims: { team: y } || none
    subject: a                 || subject: a, claims: { team: y } || overlap
  `)('{ %s } and { %s }: %s', (one, other, expected) => {
    const overlap =
      'callers[1].credentials[0].jwt: can match the same token as callers[0].credentials[0].jwt: make subject or claims differ';
    const text = idp + callers(`issuer: idp, ${one}`, `issuer: idp, ${other}`);
    expectProblems(text, expected === 'none' ? expected : overlap);
  });

  it('overlaps with no credential of another issuer or of the same caller', () => {
    const issuers = `${idp}  other: { issuer: "https://other.example", audience: x }\n`;
    expectProblems(issuers + callers('issuer: idp, subject: a', 'issuer: other, subject: a'), 'none');
    const own =
      'callers: [{ name: a, credentials: [{ jwt: { issuer: idp, subject: "a*" } }, { jwt: { issuer: idp, subject: ab } }] }]';
    expectProblems(idp + own, 'none');
  });
});
