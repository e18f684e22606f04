import { describe, expect, it } from '@jest/globals';
import { didYouMean } from '../../../src/util/text.ts';

describe('the suggestion for an unknown name', () => {
  it.each([
    ['sandbx', ['production', 'sandbox'], 'sandbox'],
    ['prot', ['host', 'port'], 'port'],
    ['BASEURL', ['product', 'baseUrl'], 'baseUrl'],
    ['tl', ['log', 'tls'], 'tls'],
    ['order-status-grup', ['order-status', 'order-status-group'], 'order-status-group'],
  ])('%s, among %j, is %s', (name, known, nearest) => {
    expect(didYouMean(name, known)).toBe(`; did you mean "${nearest}"?`);
  });

  it.each(['', 'compression', 'x'.repeat(100_000)])('is absent if no name is close (%#)', (name) => {
    expect(didYouMean(name, ['host', 'port', 'tls'])).toBe('');
  });
});

it('a name is suggested if at most a third of its characters differ', () => {
  expect(didYouMean('abcdxx', ['abcdef'])).toBe('; did you mean "abcdef"?');
  expect(didYouMean('abcxxx', ['abcdef'])).toBe('');
});
