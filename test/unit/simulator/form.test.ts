import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { decodeForm } from '../../../src/simulator/form.ts';
import { anyCharacter } from '../../support/any-character.ts';

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
