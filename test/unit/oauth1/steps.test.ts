import { describe, expect, it } from '@jest/globals';
import { baseString } from '../../../src/oauth1/base-string.ts';
import { baseStringUri } from '../../../src/oauth1/base-uri.ts';
import { percentEncode } from '../../../src/oauth1/encode.ts';
import { encodePairs, joinPairs, normalize, type Pair } from '../../../src/oauth1/parameters.ts';

/** RFC 5849 section 3.6, which takes its unreserved characters from RFC 3986 section 2.3. */
describe('percentEncode', () => {
  it('leaves the 66 unreserved characters, and encodes every other one of ASCII in upper case', () => {
    for (let code = 0; code < 128; code += 1) {
      const character = String.fromCharCode(code);
      const hex = Buffer.from(character).toString('hex').toUpperCase();
      expect(percentEncode(character)).toBe(/[A-Za-z0-9._~-]/.test(character) ? character : `%${hex}`);
    }
  });

  it.each([
    ["all of !'()*, not only the first", "!!''(())**!", '%21%21%27%27%28%28%29%29%2A%2A%21'],
    ['a space as %20, and a plus as %2B', 'a b+c', 'a%20b%2Bc'],
    ['encoded text again', '%3D', '%253D'],
    ['UTF-8 of two bytes', 'é', '%C3%A9'],
    ['UTF-8 of three bytes', '\u3001', '%E3%80%81'],
    ['UTF-8 of four bytes', '\u{1f600}', '%F0%9F%98%80'],
    ['a byte order mark', '\ufeff', '%EF%BB%BF'],
  ])('encodes %s', (_name, text, encoded) => {
    expect(percentEncode(text)).toBe(encoded);
  });

  it('rejects a lone surrogate without showing the text', () => {
    expect(() => percentEncode('planted\ud800')).toThrow(URIError);
    expect(() => percentEncode('planted\ud800')).not.toThrow(/planted/);
  });
});

/** RFC 5849 section 3.4.1.3.2, steps 2 to 4. */
describe('normalize', () => {
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

it('joinPairs keeps the given order, and the = of an empty value', () => {
  expect(joinPairs(['b', 'a'].map((name) => [name, name === 'b' ? '' : '1']))).toBe('b=&a=1');
});

it('encodePairs encodes names and values (RFC 5849 section 3.4.1.3.2, step 1)', () => {
  expect(encodePairs([['c@', '=%3D']])).toEqual([['c%40', '%3D%253D']]);
});

function normalized(pairs: readonly Pair[]): string {
  return normalize(encodePairs(pairs));
}

/** RFC 5849 section 3.4.1.2. */
describe('baseStringUri', () => {
  it.each([
    ['the first example of the RFC', 'http://EXAMPLE.COM:80/r%20v/X?id=123', 'http://example.com/r%20v/X'],
    ['the second example of the RFC', 'https://www.example.net:8080/?q=1', 'https://www.example.net:8080/'],
    ['the default port of https', 'https://example.com:443/a', 'https://example.com/a'],
    ['port 443 on http', 'http://example.com:443/a', 'http://example.com:443/a'],
    ['port 80 on https', 'https://example.com:80/a', 'https://example.com:80/a'],
    ['scheme and host in upper case', 'HTTPS://Example.COM/Path', 'https://example.com/Path'],
    ['an empty path', 'https://example.com', 'https://example.com/'],
    ['an empty path before a query', 'https://example.com?a=1', 'https://example.com/'],
    ['a fragment', 'https://example.com/a#b', 'https://example.com/a'],
    ['a user name and password', 'https://user:word@example.com/a', 'https://example.com/a'],
    ['an IPv6 host', 'http://[::1]:8080/a', 'http://[::1]:8080/a'],
    [
      'escapes in the path, which keep their case',
      'https://example.com/%7Ea%2fb',
      'https://example.com/%7Ea%2fb',
    ],
    ['a path with a trailing slash', 'https://example.com/a/', 'https://example.com/a/'],
  ])('%s', (_name, url, uri) => {
    expect(baseStringUri(new URL(url))).toBe(uri);
  });

  it('rejects a URL that is not http or https', () => {
    expect(() => baseStringUri(new URL('ftp://example.com/'))).toThrow(TypeError);
  });
});

/** RFC 5849 section 3.4.1.1; its own example is one of the published vectors. */
it.each([
  [
    'encodes URI and parameters, so values twice',
    'POST',
    'r%20v',
    'a=%3D&b=',
    'POST&http%3A%2F%2Fexample.com%2Fr%2520v&a%3D%253D%26b%3D',
  ],
  ['writes the method in upper case', 'get', '', '', 'GET&http%3A%2F%2Fexample.com%2F&'],
  ['encodes a custom method', 'x!y', '', '', 'X%21Y&http%3A%2F%2Fexample.com%2F&'],
])('the base string %s', (_name, method, path, parameters, expected) => {
  expect(baseString(method, `http://example.com/${path}`, parameters)).toBe(expected);
});
