import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { decodeForm } from '../../../src/simulator/form.ts';
import { baseStringOf, baseUrlOf } from '../../../src/simulator/signature.ts';
import { anyCharacter } from '../../support/any-character.ts';
import { formArbitrary } from '../../support/form.ts';
import { otherBaseString } from '../../support/oauth-sign.ts';
import { opensslVectors } from '../../support/vectors.ts';

const decode = (text: string) => decodeForm(Buffer.from(text, 'latin1'));

describe('the form decoder of the simulator', () => {
  it.each([
    ['', ''],
    // RFC 5849 section 3.4.1.3.1.
    ['c2&a3=2+q', 'c2:|a3:2 q'],
    ['b=2&a=1&b=2&=x&c=&d=e=f', 'b:2|a:1|b:2|:x|c:|d:e=f'],
    ['a=%EF%BB%BF%252B%2b%2B%00', 'a:\uFEFF%2B++\0'],
  ])('reads %j', (body, pairs) => {
    expect(
      decode(body)
        .map((pair) => pair.join(':'))
        .join('|'),
    ).toBe(pairs);
  });

  it('reads what URLSearchParams of the platform writes', () => {
    const text = fc.string({ unit: anyCharacter });
    fc.assert(
      fc.property(fc.array(fc.tuple(text, text)), (pairs) => {
        expect(decode(new URLSearchParams(pairs).toString())).toEqual(pairs);
      }),
    );
  });

  it.each([
    ['an escape that ends in the next parameter', 'a=%4&1=b'],
    ['a digit that is not hexadecimal', 'a=%4G'],
    ['octets that are not UTF-8', 'a=%FF'],
    ['UTF-8 that is not escaped', 'a=\xc3\xa9'],
    ['a space', 'a=1 2'],
    ['DEL', 'a=\x7f'],
    ['an empty parameter', 'a=1&&b=2'],
  ])('rejects %s', (_, body) => {
    expect(() => decode(body)).toThrow(expect.objectContaining({ reason: 'body-malformed' }));
  });
});

describe("the simulator's base string", () => {
  it('is that of the package oauth-sign for any form', () => {
    const url = 'http://127.0.0.1/gw';
    fc.assert(
      fc.property(formArbitrary, (form) => {
        expect(baseStringOf(url, form)).toBe(otherBaseString('POST', url, form));
      }),
    );
  });

  it.each(opensslVectors())('is that of the vector $id', (vector) => {
    const { url, form, consumer_key, nonce, signature_method, timestamp } = vector;
    const oauth = { consumer_key, nonce, signature_method, timestamp, version: '1.0' };
    const { protocol, host, pathname } = new URL(url);
    const base = baseUrlOf(protocol.slice(0, -1), host, pathname);
    const parameters = Object.entries(oauth).map(
      ([name, value]) => [`oauth_${name}`, String(value)] as const,
    );
    expect(baseStringOf(base, [...form, ...parameters])).toBe(vector.expected_base_string);
  });

  it.each([
    ['http', 'Gateway.Example:80', 'http://gateway.example/a'],
    ['https', 'gateway.example:443', 'https://gateway.example/a'],
    ['https', 'gateway.example:80', 'https://gateway.example:80/a'],
  ])('has for %s and the host %s the URL %s', (protocol, host, expected) => {
    expect(baseUrlOf(protocol, host, '/a')).toBe(expected);
  });
});
