import { describe, expect, it } from '@jest/globals';
import { baseStringUri } from '../../../src/oauth1/base-uri.ts';

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
