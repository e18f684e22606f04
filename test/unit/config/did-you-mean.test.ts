import { describe, expect, it } from '@jest/globals';
import { didYouMean } from '../../../src/config/did-you-mean.ts';

describe('suggesting a name', () => {
  it.each([
    ['sandbx', ['production', 'sandbox'], 'sandbox'],
    ['prot', ['host', 'port'], 'port'],
    ['BASEURL', ['product', 'baseUrl'], 'baseUrl'],
    ['tl', ['log', 'tls'], 'tls'],
    ['order-status-grup', ['order-status', 'order-status-group'], 'order-status-group'],
  ])('for %s, of %j it is %s', (name, known, nearest) => {
    expect(didYouMean(name, known)).toBe(`; did you mean "${nearest}"?`);
  });

  it.each(['', 'colour', 'x'.repeat(100_000)])('makes none if no name is close', (name) => {
    expect(didYouMean(name, ['host', 'port', 'tls'])).toBe('');
  });
});

it('a name is close while at most a third of it is wrong', () => {
  expect(didYouMean('abcdxx', ['abcdef'])).toBe('; did you mean "abcdef"?');
  expect(didYouMean('abcxxx', ['abcdef'])).toBe('');
});
