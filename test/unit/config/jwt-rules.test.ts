import { describe, expect, it } from '@jest/globals';
import { minimal, problemsOf } from './checking.ts';

const issuerWith = (fields: string): string =>
  `${minimal}jwtIssuers:\n  idp: { audience: countersign, ${fields} }\n`;
const usual = issuerWith('issuer: "https://idp.example"');
const callers = (...credentials: string[]): string =>
  `callers:\n${credentials.map((jwt, index) => `  - { name: c${index}, credentials: [{ jwt: { ${jwt} } }] }\n`).join('')}`;
const messages = (text: string): string[] => problemsOf(text).map((line) => line.replace(/^\d+ /, ''));

describe('a JWT issuer', () => {
  it.each([
    'issuer: "https://idp.example"',
    'issuer: "https://idp.example/realms/pay/"',
    'issuer: "http://127.0.0.1:8080"',
    'issuer: "kubernetes/serviceaccount", jwks: { file: keys.json }',
    'issuer: "https://idp.example", jwks: { url: "https://keys.example/jwks" }',
    'issuer: "https://idp.example", caFile: ca.pem, tokenFile: token, leeway: 5m, maxStale: 1h',
    'issuer: "https://idp.example", algorithms: [RS512, PS384, ES384, ES512, EdDSA]',
  ])('may have %s', (fields) => {
    expect(messages(issuerWith(fields))).toEqual([]);
  });

  it.each([
    ['issuer: "http://idp.example"', 'issuer: must be an https URL without query for discovery'],
    ['issuer: "https://idp.example?a=b"', 'issuer: must be an https URL without query for discovery'],
    ['issuer: "https://u:p@idp.example"', 'issuer: must be an https URL without query for discovery'],
    ['issuer: idp', 'issuer: must be an https URL without query for discovery'],
    [
      'issuer: i, jwks: { url: "http://keys.example" }',
      'jwks.url: must use https unless the host is loopback',
    ],
    ['issuer: i, jwks: { url: "https://k.example", file: f }', 'jwks: must be exactly one of url and file'],
    ['issuer: i, jwks: {}', 'jwks: must be exactly one of url and file'],
    [
      'issuer: i, jwks: { file: f }, caFile: c',
      'idp: must not have caFile, tokenFile or egressProxy together with jwks.file',
    ],
    [
      'issuer: i, jwks: { file: f }, tokenFile: t',
      'idp: must not have caFile, tokenFile or egressProxy together with jwks.file',
    ],
    ['issuer: "https://idp.example", leeway: 301s', 'leeway: must be at most 5m'],
    ['issuer: "https://idp.example", algorithms: []', 'algorithms: must not be empty'],
    ...['none', 'HS256', 'HS384', 'HS512', 'RS1', 'rs256', 'ES256K'].map((algorithm) => [
      `issuer: "https://idp.example", algorithms: [${algorithm}]`,
      'algorithms[0]: must be one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA; a token without signature or with HMAC is never accepted',
    ]),
  ])('cannot have %s', (fields, expected = '') => {
    expect(messages(issuerWith(fields))).toEqual([expect.stringContaining(expected)]);
  });

  it('needs an audience', () => {
    expect(messages(`${minimal}jwtIssuers: { idp: { issuer: "https://idp.example" } }`)).toEqual([
      'jwtIssuers.idp.audience: is missing: it must be a string',
    ]);
  });

  it('cannot be configured twice, since a token names it only by its issuer', () => {
    const twice = `${usual}  other: { issuer: "https://idp.example", audience: x }\n`;
    expect(messages(twice)).toEqual([
      'jwtIssuers.other.issuer: duplicate issuer (jwtIssuers.idp): remove one of the two',
    ]);
  });
});

describe('a JWT credential', () => {
  it.each([
    ['issuer: ipd, subject: a', 'issuer: unknown entry of jwtIssuers'],
    ['issuer: constructor, subject: a', 'issuer: unknown entry of jwtIssuers'],
    ['issuer: idp', 'must have a subject or claims'],
    ['issuer: idp, claims: {}', 'must have a subject or claims'],
    [
      'issuer: idp, subject: "*"',
      'subject: must be a value, or a prefix of at least one character followed by *',
    ],
    ['issuer: idp, subject: "a*b"', 'subject: must be a value, or a prefix'],
    ['issuer: idp, subject: ""', 'subject: must be a value, or a prefix'],
    ['issuer: idp, claims: { team: "*" }', 'claims.team: must be a value, or a prefix'],
    ['issuer: idp, claims: { admin: true }', 'claims.admin: must be a string'],
  ])('cannot have { %s }', (jwt, expected) => {
    expect(messages(usual + callers(jwt))).toEqual([expect.stringContaining(expected)]);
  });

  it.each<[string, string, boolean]>([
    ['subject: "a:*"', 'subject: "a:b"', true],
    ['subject: "a:b"', 'subject: "a:*"', true],
    ['subject: "a:*"', 'subject: "a:b:*"', true],
    ['subject: "a:b:*"', 'subject: "a:*"', true],
    ['subject: "a:b"', 'subject: "a:c"', false],
    ['subject: "a:*"', 'subject: "b:*"', false],
    ['subject: "a:*"', 'subject: "A:b"', false],
    ['subject: "a:b:*"', 'subject: "a:b"', false],
    ['subject: a', 'claims: { team: x }', true],
    ['claims: { team: x }', 'claims: { group: y }', true],
    ['claims: { team: x }', 'claims: { team: y }', false],
    ['claims: { team: x }', 'claims: { team: "x*" }', true],
    ['claims: { team: x, group: g }', 'claims: { team: x, group: h }', false],
    ['subject: a, claims: { team: x }', 'subject: b, claims: { team: x }', false],
    ['subject: a, claims: { team: x }', 'subject: a, claims: { team: y }', false],
    ['subject: a', 'subject: a, claims: { team: y }', true],
  ])('overlaps: { %s } and { %s }: %s', (one, other, expected) => {
    const text = usual + callers(`issuer: idp, ${one}`, `issuer: idp, ${other}`);
    const finding =
      'callers[1].credentials[0].jwt: can match the same token as callers[0].credentials[0].jwt: make subject or claims differ';
    expect(messages(text)).toEqual(expected ? [finding] : []);
  });

  it('overlaps with no credential of another issuer or of the same caller', () => {
    const issuers = `${usual}  other: { issuer: "https://other.example", audience: x }\n`;
    expect(messages(issuers + callers('issuer: idp, subject: a', 'issuer: other, subject: a'))).toEqual([]);
    const own =
      'callers: [{ name: a, credentials: [{ jwt: { issuer: idp, subject: "a*" } }, { jwt: { issuer: idp, subject: ab } }] }]';
    expect(messages(usual + own)).toEqual([]);
  });
});
