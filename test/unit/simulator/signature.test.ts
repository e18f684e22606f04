import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { decodeForm, percentDecode, percentEncode } from '../../../src/simulator/form.ts';
import { baseStringOf, baseUrlOf } from '../../../src/simulator/signature.ts';
import { anyCharacter } from '../../support/any-character.ts';
import { formArbitrary } from '../../support/form.ts';
import { otherBaseString } from '../../support/oauth-sign.ts';
import { opensslVectors } from '../../support/vectors.ts';

const bytes = (text: string) => Buffer.from(text, 'latin1');

describe('the form decoder of the simulator', () => {
  it('reads the example of RFC 5849 section 3.4.1.3.1', () => {
    expect(decodeForm(bytes('c2&a3=2+q'))).toEqual([
      ['c2', ''],
      ['a3', '2 q'],
    ]);
  });

  it('keeps order, duplicates, empty names and values, and "=" in a value', () => {
    expect(decodeForm(bytes('b=2&a=1&b=2&=x&c=&d=e=f'))).toEqual([
      ['b', '2'],
      ['a', '1'],
      ['b', '2'],
      ['', 'x'],
      ['c', ''],
      ['d', 'e=f'],
    ]);
  });

  it('reads an empty body as no parameters', () => {
    expect(decodeForm(bytes(''))).toEqual([]);
  });

  it('decodes once, in either case, also the octet 0 and a byte order mark', () => {
    expect(decodeForm(bytes('a=%EF%BB%BF%252B%2b%2B%00'))).toEqual([['a', '\uFEFF%2B++\0']]);
  });

  it('reads what URLSearchParams of the platform writes', () => {
    const text = fc.string({ unit: anyCharacter });
    fc.assert(
      fc.property(fc.array(fc.tuple(text, text)), (pairs) => {
        expect(decodeForm(bytes(new URLSearchParams(pairs).toString()))).toEqual(pairs);
      }),
    );
  });

  it.each([
    ['a percent sign at the end', 'a=%'],
    ['one hexadecimal digit', 'a=%4'],
    ['an escape that ends in the next parameter', 'a=%4&1=b'],
    ['a digit that is not hexadecimal', 'a=%4G'],
    ['a sign in place of a digit', 'a=%+1'],
    ['octets that are not UTF-8', 'a=%FF'],
    ['an overlong encoding of "/"', 'a=%C0%AF'],
    ['an encoded surrogate', 'a=%ED%A0%80'],
    ['half of a character', 'a=%E7%A7&b=1'],
    ['UTF-8 that is not escaped', 'a=\xc3\xa9'],
    ['a space', 'a=1 2'],
    ['a line feed', 'a=1\n'],
    ['DEL', 'a=\x7f'],
    ['an empty parameter', 'a=1&&b=2'],
    ['"&" at the end', 'a=1&'],
    ['"&" at the beginning', '&a=1'],
  ])('rejects %s', (_, body) => {
    expect(() => decodeForm(bytes(body))).toThrow(expect.objectContaining({ reason: 'body-malformed' }));
  });
});

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
