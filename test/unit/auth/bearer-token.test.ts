import { expect, it } from '@jest/globals';
import { bearerToken, tokenDigest } from '../../../src/auth/bearer-token.ts';

it.each([
  ['Bearer abc.~+/-_=', { token: 'abc.~+/-_=' }],
  ['bearer  abc ', { token: 'abc' }],
  ['Bearer', {}],
  ['Bearer "abc"', {}],
  ['Bearer a b', {}],
  ['Basic YTpi', undefined],
  ['Bearerabc', undefined],
  [undefined, undefined],
])('the header %p has the token %p', (header, token) => {
  expect(bearerToken(header)).toEqual(token);
});

it('the digest of a token is what sha256sum prints', () => {
  // printf %s abc | sha256sum
  expect(tokenDigest('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
});
