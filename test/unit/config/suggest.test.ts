import { describe, expect, it } from '@jest/globals';
import { suggestion } from '../../../src/config/suggest.ts';

describe('suggesting a name', () => {
  it.each([
    ['sandbx', ['production', 'sandbox'], 'sandbox'],
    ['prot', ['host', 'port'], 'port'],
    ['BASEURL', ['product', 'baseUrl'], 'baseUrl'],
    ['tl', ['log', 'tls'], 'tls'],
    ['order-status-grup', ['order-status', 'order-status-group'], 'order-status-group'],
  ])('for %s, of %j it is %s', (name, known, nearest) => {
    expect(suggestion(name, known)).toBe(`; did you mean "${nearest}"?`);
  });

  it.each(['', 'colour', 'x'.repeat(100_000)])('makes none where nothing is near', (name) => {
    expect(suggestion(name, ['host', 'port', 'tls'])).toBe('');
  });
});

it('a name is close while at most a third of it is wrong', () => {
  expect(suggestion('abcdxx', ['abcdef'])).toBe('; did you mean "abcdef"?');
  expect(suggestion('abcxxx', ['abcdef'])).toBe('');
});
