import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { percentDecode, percentEncode } from '../../../src/simulator/form.ts';
import { baseStringOf, baseUrlOf } from '../../../src/simulator/signature.ts';
import { anyCharacter } from '../../support/any-character.ts';
import { formArbitrary } from '../../support/form.ts';
import { otherBaseString } from '../../support/oauth-sign.ts';
import { opensslVectors } from '../../support/vectors.ts';

describe("the simulator's base string", () => {
  it('is that of the package oauth-sign for any form', () => {
    fc.assert(
      fc.property(formArbitrary, (form) => {
        expect(baseStringOf('http://127.0.0.1/gw', form)).toBe(
          otherBaseString('POST', 'http://127.0.0.1/gw', form),
        );
      }),
    );
  });

  it.each(opensslVectors().map((vector) => [vector.id, vector] as const))(
    'is that of the vector %s',
    (_, vector) => {
      const { url, form, consumer_key, nonce, signature_method, timestamp } = vector;
      const parameters = [
        ...form,
        ['oauth_consumer_key', consumer_key],
        ['oauth_nonce', nonce],
        ['oauth_signature_method', signature_method],
        ['oauth_timestamp', String(timestamp)],
        ['oauth_version', '1.0'],
      ] as const;
      const { protocol, host, pathname } = new URL(url);
      const base = baseUrlOf(protocol.slice(0, -1), host, pathname);
      expect(baseStringOf(base, parameters)).toBe(vector.expected_base_string);
    },
  );
});

describe("the simulator's base URL", () => {
  it.each([
    ['http', 'Gateway.Example:80', 'http://gateway.example/a'],
    ['https', 'gateway.example:443', 'https://gateway.example/a'],
    ['https', 'gateway.example:80', 'https://gateway.example:80/a'],
    ['http', '127.0.0.1:8080', 'http://127.0.0.1:8080/a'],
    ['http', '[::1]:80', 'http://[::1]/a'],
  ])('of %s and the host %s is %s', (protocol, host, expected) => {
    expect(baseUrlOf(protocol, host, '/a')).toBe(expected);
  });
});

describe("the simulator's percent-encoding", () => {
  it('leaves unreserved characters bare and writes every other octet in upper case', () => {
    expect(percentEncode('AZaz09-._~')).toBe('AZaz09-._~');
    expect(percentEncode("!*'()/ +é\n")).toBe('%21%2A%27%28%29%2F%20%2B%C3%A9%0A');
  });

  it('is undone for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), (text) => {
        expect(percentDecode(percentEncode(text))).toBe(text);
      }),
    );
  });

  it.each(['+', ' ', 'a=b', '%', '%4', '%zz', '%C3', 'é'])('does not decode "%s"', (text) => {
    expect(percentDecode(text)).toBeUndefined();
  });
});
