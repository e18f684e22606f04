import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import type { SigningKey } from '../../../src/oauth1/methods.ts';
import { authorizationHeader, prepare, sign, type Unsigned } from '../../../src/oauth1/sign.ts';
import { Secret } from '../../../src/secret.ts';
import { type OpensslVector, opensslVectors, privateKeyOf } from '../../support/vectors.ts';

const request: Unsigned = {
  method: 'POST',
  url: new URL('https://gateway.example/gw/api/v2/get-balance/manager/acme'),
  form: [['balance-name', 'EUR']],
  signatureMethod: 'HMAC-SHA1',
  consumerKey: 'acme',
  nonce: '0123456789abcdef0123456789abcdef',
  timestamp: 1_700_000_000,
};
const controlKey: SigningKey = { kind: 'control_key', secret: new Secret('planted-key') };

describe('a request signed with openssl', () => {
  it.each(opensslVectors())('$id has the same steps, body and signature', async (vector) => {
    const prepared = prepare(unsigned(vector));
    expect(prepared.normalizedParameters).toBe(vector.expected_normalized_parameters);
    expect(prepared.baseString).toBe(vector.expected_base_string);
    const signed = await sign(unsigned(vector), keyOf(vector));

    expect(signed.body).toBe(vector.expected_body);
    expect(signed.authorization).toMatch(/^OAuth /);
    expect(signed.authorization).toContain(
      `oauth_signature="${encodeURIComponent(vector.expected_signature)}"`,
    );
  });
});

describe('sign', () => {
  it('writes the header of docs/gateway-interface.md section 5.4, and the same five parameters after the form', async () => {
    const { authorization, body } = await sign(request, controlKey);
    expect(authorization.replace(/oauth_signature="[^"]*"/, 'oauth_signature="..."')).toBe(
      'OAuth oauth_consumer_key="acme", oauth_nonce="0123456789abcdef0123456789abcdef", ' +
        'oauth_signature_method="HMAC-SHA1", oauth_timestamp="1700000000", oauth_version="1.0", ' +
        'oauth_signature="..."',
    );
    expect(body).toBe(
      'balance-name=EUR&oauth_consumer_key=acme&oauth_nonce=0123456789abcdef0123456789abcdef' +
        '&oauth_signature_method=HMAC-SHA1&oauth_timestamp=1700000000&oauth_version=1.0',
    );
  });

  it('signs the query of the URL, but omits it from the body', () => {
    const prepared = prepare({ ...request, url: new URL('https://gateway.example/a?z=1+2&a=%41') });

    expect(prepared.normalizedParameters).toMatch(/^a=A&balance-name=EUR&oauth_.*&z=1%202$/);
    expect(prepared.body).toMatch(/^balance-name=EUR&oauth_consumer_key=acme&/);
    expect(prepared.body).not.toMatch(/z=/);
  });

  it.each([0, 1.5, 1e21])(
    'rejects %p as a timestamp: RFC 5849 section 3.3 requires a positive integer',
    async (timestamp) => {
      await expect(sign({ ...request, timestamp }, controlKey)).rejects.toThrow(TypeError);
    },
  );

  it.each<[name: string, change: Partial<Unsigned>]>([
    ['a key of the wrong kind', { signatureMethod: 'RSA-SHA256' }],
    ['a form with a lone surrogate', { form: [['planted-value\ud800', 'planted-value']] }],
    ['a wrong timestamp', { timestamp: 0.5 }],
    ['a URL that is not http or https', { url: new URL('ftp://planted-value/') }],
  ])('shows neither the key nor a value when it fails for %s', async (_name, change) => {
    const error: unknown = await sign({ ...request, ...change }, controlKey).catch((error: unknown) => error);

    expect(error).toBeInstanceOf(Error);
    expect(inspect(error, { showHidden: true, depth: null })).not.toContain('planted-');
  });
});

describe('authorizationHeader', () => {
  it('percent-encodes values including the signature (RFC 5849 section 3.5.1)', () => {
    const { oauth } = prepare({ ...request, consumerKey: 'a"b, c\r\n' });
    expect(authorizationHeader(oauth.slice(0, 1), 'x+/=')).toBe(
      'OAuth oauth_consumer_key="a%22b%2C%20c%0D%0A", oauth_signature="x%2B%2F%3D"',
    );
  });
});

function unsigned(vector: OpensslVector): Unsigned {
  return {
    method: 'POST',
    url: new URL(vector.url),
    form: vector.form,
    signatureMethod: vector.signature_method,
    consumerKey: vector.consumer_key,
    nonce: vector.nonce,
    timestamp: vector.timestamp,
  };
}

function keyOf({ private_key_file: file, control_key = '' }: OpensslVector): SigningKey {
  return file === undefined
    ? { kind: 'control_key', secret: new Secret(control_key) }
    : { kind: 'private_key', privateKey: privateKeyOf(file) };
}
