import { createHmac } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { methods, type SigningKey } from '../../../src/oauth1/methods.ts';
import { Secret } from '../../../src/secret.ts';
import { opensslHmacSha1, opensslVerifies } from '../../support/openssl.ts';
import { itWith } from '../../support/requires.ts';
import { privateKeyOf, vectorPath } from '../../support/vectors.ts';

const privateKey: SigningKey = { kind: 'private_key', privateKey: privateKeyOf('rsa-2048-pkcs8.pem') };
/** Reported as skipped if the program is not installed. */
const withOpenssl = itWith('openssl');

describe('HMAC-SHA1 (RFC 5849 section 3.4.2)', () => {
  it.each([
    ['no token secret', 'cs', '', 'egQqG5AJep5sJ7anhXju1unge2I='],
    ['a token secret', 'cs', 'ts', 'VZVjXceV7JgPq/dOTnNmEfO0Fv8='],
  ])('signs with %s as wiki.oauth.net TestCases 9.2 has it', (_name, secret, tokenSecret, signature) => {
    expect(methods['HMAC-SHA1'].sign('bs', controlKey(secret), tokenSecret)).toBe(signature);
  });

  withOpenssl('encodes both secrets before joining them; openssl computes the same', () => {
    expect(methods['HMAC-SHA1'].sign('bs', controlKey('a&b %+é'), "!'()*")).toBe(
      opensslHmacSha1('a%26b%20%25%2B%C3%A9&%21%27%28%29%2A', 'bs'),
    );
  });

  // RFC 2202 section 3 has a key of 80 bytes too; ours always ends with "&".
  it.each([0, 1, 20, 62, 63, 64, 65, 79, 200])(
    'with a key of %i characters and "&" it is what Node computes',
    (length) => {
      const key = 'k'.repeat(length);
      for (const text of ['', 'bs', 'a'.repeat(10_000), 'é and 😀']) {
        const expected = createHmac('sha1', `${key}&`).update(text).digest('base64');
        expect(methods['HMAC-SHA1'].sign(text, controlKey(key), '')).toBe(expected);
      }
    },
  );

  it('leaves no copy of the control key in the buffers that Node reuses', () => {
    const secret = `control-key-${'never-to-be-found'.repeat(2)}`;
    const pool = () => Buffer.from(Buffer.allocUnsafe(8).buffer);
    const before = pool();
    expect(methods['HMAC-SHA1'].sign('bs', controlKey(secret), '')).toHaveLength(28);
    for (const buffers of [before, pool()]) expect(buffers.includes(secret)).toBe(false);
  });

  it('rejects a private key', () => {
    expect(() => methods['HMAC-SHA1'].sign('bs', privateKey, '')).toThrow(TypeError);
  });
});

describe('RSA-SHA256 (RFC 8017 section 8.2)', () => {
  withOpenssl.each([
    ['rsa-2048-pkcs1.pem', 'rsa-2048-public.pem'],
    ['rsa-2048-pkcs8.pem', 'rsa-2048-public.pem'],
    ['rsa-4096-pkcs8.pem', 'rsa-4096-public.pem'],
  ])('signs with %s, and openssl verifies it', async (file, publicFile) => {
    const key: SigningKey = { kind: 'private_key', privateKey: privateKeyOf(file) };
    const signature = await methods['RSA-SHA256'].sign('a base string', key, '');
    const publicPath = vectorPath(`keys/${publicFile}`);

    expect(opensslVerifies(publicPath, 'a base string', signature)).toBe(true);
    expect(opensslVerifies(publicPath, 'another base string', signature)).toBe(false);
  });

  it('does not use the token secret', async () => {
    const signWith = (tokenSecret: string) => methods['RSA-SHA256'].sign('bs', privateKey, tokenSecret);

    expect(await signWith('ts')).toBe(await signWith(''));
  });

  it('rejects a control key without showing it', () => {
    const signing = () => methods['RSA-SHA256'].sign('bs', controlKey('planted'), '');

    expect(signing).toThrow(TypeError);
    expect(signing).not.toThrow(/planted/);
  });
});

describe('the table of methods', () => {
  it('finds only its own methods', () => {
    expect(Object.keys(methods)).toEqual(['HMAC-SHA1', 'RSA-SHA256', 'SHA1-control']);
    for (const name of ['constructor', '__proto__', 'toString', 'hmac-sha1', 'PLAINTEXT']) {
      expect(name in methods).toBe(false);
    }
  });
});

function controlKey(text: string): SigningKey {
  return { kind: 'control_key', secret: new Secret(text) };
}
