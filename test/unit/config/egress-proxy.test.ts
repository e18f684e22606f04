import { describe, expect, it } from '@jest/globals';
import { problemsOf } from './checking.ts';

/** @param fields of egressProxy; flow style */
const withProxy = (fields: string, baseUrl = 'https://gateway.example'): string =>
  `environments:\n  sandbox: { baseUrl: "${baseUrl}", product: gw, egressProxy: { ${fields} } }\nkeys: { source: directory, directory: keys }\n`;
const messages = (text: string): string[] => problemsOf(text).map((line) => line.replace(/^\d+ /, ''));
const url = 'url: "http://egress.internal:3128"';
const at = 'environments.sandbox.egressProxy';
const vaultWith = (address: string): string =>
  `environments: { sandbox: { baseUrl: "https://gateway.example", product: gw } }
keys: { source: vault, vault: { address: "${address}", auth: { method: token, tokenFile: t }, egressProxy: { ${url} } } }\n`;
const incomplete = `${at}: requires username with exactly one of password and passwordFile, or none of them`;

describe('an egress proxy', () => {
  it.each([
    url,
    'url: "https://egress.internal", caFile: ca.pem',
    `${url}, username: pay, passwordFile: password`,
    `${url}, username: pay, password: secret`,
    'url: "http://[::1]:3128"',
  ])('may have %s', (fields) => {
    expect(messages(withProxy(fields))).toEqual([]);
  });

  it.each([
    [
      'url: "socks5://egress.internal"',
      `${at}.url: must be an absolute URL such as http://proxy.example:3128`,
    ],
    ['url: "egress.internal:3128"', `${at}.url: must be an absolute URL such as http://proxy.example:3128`],
    ['url: egress.internal', `${at}.url: must be an absolute URL such as http://proxy.example:3128`],
    ['url: "http://egress.internal/path"', `${at}.url: must not have a path`],
    [
      'url: "http://pay:secret@egress.internal"',
      `${at}.url: must not contain credentials or "@": remove them`,
    ],
    ['username: pay', `${at}.url: is missing`],
    [`${url}, caFile: ca.pem`, `${at}.caFile: requires an https: URL of the proxy`],
    [`${url}, username: pay`, incomplete],
    [`${url}, passwordFile: p`, incomplete],
    [`${url}, username: pay, password: a, passwordFile: b`, incomplete],
    [`${url}, username: "pay:roll", password: a`, `${at}.username: must be 1 to 255 characters without ":"`],
    [`${url}, username: "pay\\r\\nHost: x", password: a`, `${at}.username: must be 1 to 255 characters`],
  ])('cannot have %s', (fields, expected) => {
    expect(messages(withProxy(fields))).toEqual([expect.stringContaining(expected)]);
  });

  it('cannot be used for a server without https: it could read the forms', () => {
    const text = 'must use https, because connections go through an egressProxy';
    expect(messages(withProxy(url, 'http://127.0.0.1:8091'))).toEqual([
      `environments.sandbox.baseUrl: ${text}`,
    ]);
    expect(messages(vaultWith('http://127.0.0.1:8200'))).toEqual([`keys.vault.address: ${text}`]);
    expect(messages(vaultWith('https://vault.internal'))).toEqual([]);
    const issuer = `${withProxy(url)}jwtIssuers: { idp: { issuer: "http://127.0.0.1:1", audience: a, egressProxy: { ${url} } } }\n`;
    const notForIssuer = 'jwtIssuers.idp.egressProxy: must not be set for a server without https';
    expect(messages(issuer)).toEqual([notForIssuer]);
    // The server that has the keys counts.
    const jwks = (address: string): string =>
      issuer.replace('audience: a', `audience: a, jwks: { url: "${address}" }`);
    expect(messages(jwks('https://keys.example/jwks'))).toEqual([]);
    const local = jwks('http://127.0.0.1:1/jwks').replace('issuer: "http:', 'issuer: "https:');
    expect(messages(local)).toEqual([notForIssuer]);
  });
});

describe('a client certificate for the gateway', () => {
  const withFields = (fields: string, scheme = 'https'): string =>
    `environments: { sandbox: { baseUrl: "${scheme}://127.0.0.1", product: gw, ${fields} } }\nkeys: { source: directory, directory: keys }\n`;

  it('needs its key, and https', () => {
    expect(messages(withFields('certFile: c, keyFile: k'))).toEqual([]);
    const both = 'environments.sandbox: requires both certFile and keyFile, or neither';
    expect(messages(withFields('certFile: c'))).toEqual([both]);
    expect(messages(withFields('keyFile: k'))).toEqual([both]);
    expect(messages(withFields('certFile: c, keyFile: k', 'http'))).toEqual([
      'environments.sandbox.baseUrl: must use https, because there is a client certificate',
    ]);
  });
});
