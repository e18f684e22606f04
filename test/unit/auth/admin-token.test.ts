import { describe, expect, it } from '@jest/globals';
import { presentsToken, tokenDigest } from '../../../src/auth/bearer-token.ts';

const token = 'a-token.with~signs+/0815=';
const digest = tokenDigest(token);
const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;

describe('the token', () => {
  it.each([
    ['as a bearer token', `Bearer ${token}`],
    ['as a password', basic(`operator:${token}`)],
    ['as a password without a user name', basic(`:${token}`)],
    ['with the scheme in other letters', basic(`x:${token}`).replace('Basic', 'bAsIC ')],
  ])('is accepted %s', (_how, header) => {
    expect(presentsToken(header, digest)).toBe(true);
  });

  it('may have a colon as a password', () => {
    const withColon = 'a:b:c';
    expect(presentsToken(basic(`x:${withColon}`), tokenDigest(withColon))).toBe(true);
  });

  it.each([
    ['is missing', undefined],
    ['is empty', ''],
    ['is another one', 'Bearer another'],
    ['is another one as a password', basic('x:another')],
    ['is the user name', basic(`${token}:`)],
    ['has no colon', basic(token)],
    ['is longer', `Bearer ${token}=`],
    ['is its own digest', `Bearer ${digest}`],
    ['has another scheme', `Digest ${token}`],
    ['is not base64', `Basic ${token}!`],
  ])('is not accepted if it %s', (_what, header) => {
    expect(presentsToken(header, digest)).toBe(false);
  });
});
