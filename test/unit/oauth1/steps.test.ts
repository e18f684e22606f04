import { expect, it } from '@jest/globals';
import { baseString } from '../../../src/oauth1/base-string.ts';
import { baseStringUri } from '../../../src/oauth1/base-uri.ts';
import { percentEncode } from '../../../src/oauth1/encode.ts';

it('a lone surrogate is rejected without showing the text', () => {
  expect(() => percentEncode('planted\ud800')).toThrow(URIError);
  expect(() => percentEncode('planted\ud800')).not.toThrow(/planted/);
});

/** RFC 5849 section 3.4.1.2. */
it.each([
  ['the default port of http', 'http://EXAMPLE.COM:80/r%20v/X?id=123', 'http://example.com/r%20v/X'],
  ['the default port of https', 'https://example.com:443/a/', 'https://example.com/a/'],
  ['port 443 on http', 'http://example.com:443/a', 'http://example.com:443/a'],
  ['a user, an empty path, a query and a fragment', 'https://u:w@example.com?a=1#b', 'https://example.com/'],
  ['an IPv6 host', 'http://[::1]:8080/a', 'http://[::1]:8080/a'],
  ['escapes in the path, which keep their case', 'https://a.test/%7Ea%2fb', 'https://a.test/%7Ea%2fb'],
])('the base string URI of a URL with %s', (_name, url, uri) => {
  expect(baseStringUri(new URL(url))).toBe(uri);
});

it('a URL that is not http or https is rejected', () => {
  expect(() => baseStringUri(new URL('ftp://example.com/'))).toThrow(TypeError);
});

/** RFC 5849 section 3.4.1.1; its own example is one of the published vectors. */
it('the base string has the method in upper case, and each part encoded, so values twice', () => {
  const parts = 'X%21Y&http%3A%2F%2Fexample.com%2Fr%2520v&a%3D%253D%26b%3D';
  expect(baseString('x!y', 'http://example.com/r%20v', 'a=%3D&b=')).toBe(parts);
});
