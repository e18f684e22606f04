import { describe, expect, it } from '@jest/globals';
import { encodePairs, joinPairs, normalize, type Pair } from '../../../src/oauth1/parameters.ts';

/** RFC 5849 section 3.4.1.3.2, steps 2 to 4. */
describe('normalize', () => {
  it('reproduces the example of the RFC, from the decoded table of section 3.4.1.3.1', () => {
    const pairs: Pair[] = [
      ['b5', '=%3D'],
      ['a3', 'a'],
      ['c@', ''],
      ['a2', 'r b'],
      ['oauth_consumer_key', '9djdj82h48djs9d2'],
      ['oauth_token', 'kkk9d7dh3k39sjv7'],
      ['oauth_signature_method', 'HMAC-SHA1'],
      ['oauth_timestamp', '137131201'],
      ['oauth_nonce', '7d8f3e4a'],
      ['c2', ''],
      ['a3', '2 q'],
    ];

    expect(normalized(pairs)).toBe(
      'a2=r%20b&a3=2%20q&a3=a&b5=%3D%253D&c%40=&c2=&oauth_consumer_key=9djdj82h48djs9d2&oauth_nonce=7d8f3e4a' +
        '&oauth_signature_method=HMAC-SHA1&oauth_timestamp=137131201&oauth_token=kkk9d7dh3k39sjv7',
    );
  });

  it.each<[name: string, names: string[], sorted: string]>([
    ['a name before a longer one that starts with it', ['phone2', 'phone'], 'phone= phone2='],
    ['- and . before =, though = follows the shorter name', ['a-b', 'a', 'a.b'], 'a= a-b= a.b='],
    ['upper case before lower case', ['b', 'a', 'B', 'A'], 'A= B= a= b='],
    ['digits by byte, not by number', ['10', '9', '1'], '1= 10= 9='],
    ['by encoded byte: % before digits and letters', ['a', '0', 'é', '-'], '%C3%A9= -= 0= a='],
    ['no locale: é after a far letter of its script', ['\u00e9', '\u00c9'], '%C3%89= %C3%A9='],
    ['no UTF-16: U+10000 after U+FFFF', ['\u{10000}', '\uffff'], '%EF%BF%BF= %F0%90%80%80='],
    ['an empty name first', ['a', ''], '= a='],
    ['underscore between upper and lower case', ['a', '_', 'Z'], 'Z= _= a='],
  ])('sorts %s', (_name, names, sorted) => {
    expect(normalized(names.map((name) => [name, '']))).toBe(sorted.replaceAll(' ', '&'));
  });

  it('sorts equal names by value, by encoded byte', () => {
    expect(normalized(['b', '', 'a', 'B', 'é', '10', '9'].map((value) => ['n', value]))).toBe(
      'n=&n=%C3%A9&n=10&n=9&n=B&n=a&n=b',
    );
  });

  it('keeps identical pairs', () => {
    expect(
      normalized([
        ['a', '1'],
        ['b', ''],
        ['a', '1'],
      ]),
    ).toBe('a=1&a=1&b=');
  });

  it('is empty for no parameters', () => {
    expect(normalize([])).toBe('');
  });

  it('does not change its input', () => {
    const pairs: readonly Pair[] = Object.freeze([
      Object.freeze(['b', '2'] as const),
      Object.freeze(['a', '1'] as const),
    ]);

    expect(normalize(pairs)).toBe('a=1&b=2');
    expect(pairs).toEqual([
      ['b', '2'],
      ['a', '1'],
    ]);
  });
});

describe('joinPairs', () => {
  it('keeps the given order, and the = of an empty value', () => {
    expect(
      joinPairs([
        ['b', ''],
        ['', 'x'],
        ['a', '1'],
      ]),
    ).toBe('b=&=x&a=1');
  });
});

describe('encodePairs', () => {
  it('encodes names and values (RFC 5849 section 3.4.1.3.2, step 1)', () => {
    expect(encodePairs([['c@', '=%3D']])).toEqual([['c%40', '%3D%253D']]);
  });
});

function normalized(pairs: readonly Pair[]): string {
  return normalize(encodePairs(pairs));
}
