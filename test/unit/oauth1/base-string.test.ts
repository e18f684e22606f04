import { describe, expect, it } from '@jest/globals';
import { baseString } from '../../../src/oauth1/base-string.ts';

/** RFC 5849 section 3.4.1.1; its own example is one of the published vectors. */
describe('baseString', () => {
  it('encodes URI and parameters, so values are encoded twice', () => {
    expect(baseString('POST', 'http://example.com/r%20v', 'a=%3D&b=')).toBe(
      'POST&http%3A%2F%2Fexample.com%2Fr%2520v&a%3D%253D%26b%3D',
    );
  });

  it('writes the method in upper case', () => {
    expect(baseString('get', 'http://example.com/', '')).toBe('GET&http%3A%2F%2Fexample.com%2F&');
  });

  it('encodes a custom method', () => {
    expect(baseString('x!y', 'http://example.com/', '')).toBe('X%21Y&http%3A%2F%2Fexample.com%2F&');
  });
});
