import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { methods, type SigningKey } from '../../../src/oauth1/methods.ts';
import { Secret } from '../../../src/secret.ts';
import { itWith } from '../../support/requires.ts';
import { privateKeyOf } from '../../support/vectors.ts';

const privateKey: SigningKey = { kind: 'private_key', privateKey: privateKeyOf('rsa-2048-pkcs8.pem') };

describe('HMAC-SHA1 (RFC 5849 section 3.4.2)', () => {
  itWith('openssl')('encodes both secrets before joining them; openssl computes the same', () => {
    const key = Buffer.from('a%26b%20%25%2B%C3%A9&%21%27%28%29%2A').toString('hex');
    const args = ['dgst', '-sha1', '-mac', 'HMAC', '-macopt', `hexkey:${key}`, '-binary'];
    const expected = execFileSync('openssl', args, { input: 'bs' }).toString('base64');
    expect(methods['HMAC-SHA1'].sign('bs', controlKey('a&b %+é'), "!'()*")).toBe(expected);
  });

  it.each([0, 63, 64])('with a key of %i characters and "&" it is what Node computes', (length) => {
    const key = 'k'.repeat(length);
    for (const text of ['', 'bs', 'a'.repeat(10_000), 'é and 😀']) {
      const expected = createHmac('sha1', `${key}&`).update(text).digest('base64');
      expect(methods['HMAC-SHA1'].sign(text, controlKey(key), '')).toBe(expected);
    }
  });

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

it('RSA-SHA256 rejects a control key without showing it', () => {
  const signing = () => methods['RSA-SHA256'].sign('bs', controlKey('planted'), '');
  expect(signing).toThrow(TypeError);
  expect(signing).not.toThrow(/planted/);
});

it('the table of methods finds only its own methods', () => {
  expect(Object.keys(methods)).toEqual(['HMAC-SHA1', 'RSA-SHA256', 'SHA1-control']);
  expect('constructor' in methods).toBe(false);
});

function controlKey(text: string): SigningKey {
  return { kind: 'control_key', secret: new Secret(text) };
}
