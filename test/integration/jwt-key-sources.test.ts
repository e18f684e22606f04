import { createPrivateKey } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { loadKeys } from '../../src/auth/jwt/key-set.ts';
import { configSchema } from '../../src/config/schema.ts';
import { configFor } from '../support/config.ts';
import { closedUrl } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import type { IssuerInput } from '../support/jwt.ts';
import { issuerKey, type OidcServer, startOidcServer } from '../support/oidc-server.ts';
import { describeWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';

const starts = harness();
const [ec, rsa] = [issuerKey('ec'), issuerKey('rsa', 'RS256')];
let issuer: OidcServer;

beforeEach(async () => {
  issuer = starts.closing(await startOidcServer({ keys: [ec, rsa] }));
});

/** The IDs of the keys, or the message of the error. */
async function load(settings: Partial<IssuerInput> = {}): Promise<unknown> {
  const jwtIssuers = { idp: { issuer: issuer.url, audience: 'a', ...settings } };
  const config = configSchema.parse(configFor('http://127.0.0.1:9', { jwtIssuers })).jwtIssuers['idp'];
  if (config === undefined) throw new Error('no issuer');
  return loadKeys(config).then(
    (keys) => keys.map(({ kid }) => kid),
    (error: Error) => error.message,
  );
}

describe('the keys of an issuer', () => {
  it('are found by discovery', async () => {
    expect(await load()).toEqual(['ec', 'rsa']);
    expect(issuer.requests.map(({ path }) => path)).toEqual(['/.well-known/openid-configuration', '/keys']);
    expect(issuer.requests[0]?.headers).not.toHaveProperty('authorization');
  });

  it('are found below the path of the issuer, with or without a slash at its end', async () => {
    issuer.discovery['issuer'] = `${issuer.url}/realms/pay/`;
    const paths: (string | undefined)[] = [];
    const { respond } = issuer;
    issuer.respond = (request, response) => {
      paths.push(request.url);
      request.url = request.url?.replace('/realms/pay', '') ?? '';
      respond(request, response);
    };
    expect(await load({ issuer: `${issuer.url}/realms/pay/` })).toEqual(['ec', 'rsa']);
    expect(paths[0]).toBe('/realms/pay/.well-known/openid-configuration');
  });

  it('are fetched from jwks.url without discovery, also from another host', async () => {
    const settings = { issuer: 'kubernetes/serviceaccount', jwks: { url: `${issuer.url}/keys` } };
    expect(await load(settings)).toEqual(['ec', 'rsa']);
    expect(issuer.requests.map(({ path }) => path)).toEqual(['/keys']);
  });

  it('are read from a file, each time', async () => {
    const file = starts.folder().file('keys.json', JSON.stringify({ keys: [ec.jwk] }));
    const jwks = { file };
    expect(await load({ jwks })).toEqual(['ec']);
    writeFileSync(file, JSON.stringify({ keys: [rsa.jwk] }));
    expect(await load({ jwks })).toEqual(['rsa']);
    rmSync(file);
    expect(await load({ jwks })).toBe(`${file}: does not exist`);
    writeFileSync(file, '{');
    expect(await load({ jwks })).toBe(`${file}: not valid JSON`);
    expect(issuer.requests).toEqual([]);
  });

  it.each([
    ['the document of another issuer', { issuer: 'https://other.example' }, 'names another issuer'],
    ['a key set at another port', { jwks_uri: 'http://127.0.0.1:1/keys' }, "not on the issuer's host"],
    ['a key set with a password', { jwks_uri: 'http://user:password@HOST/keys' }, "not on the issuer's host"],
    ['no key set', { jwks_uri: undefined }, "not on the issuer's host"],
  ])('are not fetched after discovery of %s', async (_, changes, message) => {
    const text = JSON.stringify({ ...issuer.discovery, ...changes });
    issuer.discovery = JSON.parse(text.replace('HOST', new URL(issuer.url).host));
    expect(await load()).toContain(message);
    expect(issuer.fetches()).toBe(0);
  });

  it('are not fetched from where a redirect leads, nor is anything else', async () => {
    const other = starts.closing(await startOidcServer());
    for (const target of [`${other.url}/keys`, `${issuer.url}/other`]) {
      issuer.respond = (_, response) => void response.writeHead(302, { Location: target }).end();
      expect(await load({ jwks: { url: `${issuer.url}/keys` } })).toMatch(/status 302 instead of 200$/);
    }
    expect(other.requests).toEqual([]);
    expect(issuer.requests).toHaveLength(2);
  });

  it.each([
    ['a failed request', 500, '{}', /status 500/],
    ['a name twice', 200, '{"keys":[],"keys":[]}', /not valid JSON/],
    ['no list', 200, '{"keys":{}}', /has no list of keys/],
    ['an empty list', 200, '{"keys":[]}', /no usable public key/],
    ['300 KB', 200, ' '.repeat(300_000), /too large/],
    ['101 keys', 200, JSON.stringify({ keys: Array(101).fill(ec.jwk) }), /more than 100 keys/],
  ])('cannot be %s', async (_, status, body, message) => {
    issuer.respond = (_request, response) => void response.writeHead(status).end(body);
    expect(await load({ jwks: { url: `${issuer.url}/keys` } })).toMatch(message);
  });

  it('that nothing serves are reported with the cause', async () => {
    expect(await load({ jwks: { url: `${closedUrl}/keys` } })).toBe(
      `${closedUrl}/keys: connection refused: ECONNREFUSED`,
    );
  });

  it('are only those whose verification is fast: at most 8,192 bits, and an exponent of at most 32', async () => {
    const base64url = (value: bigint): string => {
      const digits = value.toString(16);
      return Buffer.from(digits.padStart(digits.length + (digits.length % 2), '0'), 'hex').toString(
        'base64url',
      );
    };
    const key = (kid: string, bits: number, exponent: bigint) => ({
      kty: 'RSA',
      kid,
      n: base64url(2n ** BigInt(bits) - 1n),
      e: base64url(exponent),
    });
    issuer.published = {
      keys: [
        key('exponent as long as the modulus', 3072, 2n ** 3071n + 1n),
        key('least exponent of 33 bits', 2048, 2n ** 32n + 1n),
        key('largest exponent of 32 bits', 2048, 2n ** 32n - 1n),
        key('8,192 bits', 8192, 65_537n),
        key('8,193 bits', 8193, 65_537n),
        key('16,392 bits', 16_392, 65_537n),
      ],
    };
    expect(await load()).toEqual(['largest exponent of 32 bits', '8,192 bits']);
    // Of longer ones Node leaves an error behind, with which the next private key would fail.
    expect(createPrivateKey(readFileSync('test/vectors/keys/rsa-2048-pkcs8.pem')).type).toBe('private');
  });

  it('are only public ones that are long enough and of a known kind', async () => {
    const weak = issuerKey('weak', 'RS256', 1024);
    issuer.published = {
      keys: [
        { kty: 'oct', k: 'c2VjcmV0', kid: 'secret' },
        { ...ec.privateKey.export({ format: 'jwk' }), kid: 'private' },
        weak.jwk,
        { ...ec.jwk, x: 'AAAA', kid: 'not on the curve' },
        { kty: 'new', kid: 'unknown' },
        null,
        'text',
        rsa.jwk,
      ],
    };
    expect(await load()).toEqual(['rsa']);
  });
});

describeWith('openssl')('the server of a key set with TLS', () => {
  it('is verified with caFile, and gets the token of tokenFile; both are read each time', async () => {
    const folder = starts.folder();
    const [ours, theirs] = [new Ca(folder.path, 'ours'), new Ca(folder.path, 'theirs')];
    const server = starts.closing(await startOidcServer({ tls: ours.issue('server'), keys: [ec] }));
    const tokenFile = folder.file('token', 'first\n');
    const caFile = folder.file('ca.crt', theirs.cert.toString());
    const settings = { issuer: server.url, caFile, tokenFile };
    expect(await load(settings)).toMatch(/: TLS: /);
    expect(server.requests).toEqual([]);
    writeFileSync(caFile, ours.cert);
    expect(await load(settings)).toEqual(['ec']);
    writeFileSync(tokenFile, 'second');
    expect(await load(settings)).toEqual(['ec']);
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer first',
      'Bearer first',
      'Bearer second',
      'Bearer second',
    ]);
    writeFileSync(tokenFile, '{"auth":{"client_token":"planted"}}');
    expect(await load(settings)).toMatch(/token: looks like JSON, such as a response of Vault/);
    rmSync(tokenFile);
    expect(await load(settings)).toBe(`${tokenFile}: does not exist`);
  });
});
