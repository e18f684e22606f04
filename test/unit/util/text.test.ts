import { describe, expect, it } from '@jest/globals';
import { didYouMean, didYouMeanOneOf } from '../../../src/util/text.ts';

describe('the suggestion for an unknown name', () => {
  it.each([
    ['sandbx', ['production', 'sandbox'], 'sandbox'],
    ['prot', ['host', 'port'], 'port'],
    ['BASEURL', ['product', 'baseUrl'], 'baseUrl'],
    ['tl', ['log', 'tls'], 'tls'],
    ['loging', ['signing', 'log'], 'log'],
    ['logging', ['signing', 'log'], 'log'],
    ['logger', ['signing', 'log'], 'log'],
    ['signnig', ['signing', 'log'], 'signing'],
    ['order-status-grup', ['order-status', 'order-status-group'], 'order-status-group'],
  ])('%s, among %j, is %s', (name, known, nearest) => {
    expect(didYouMean(name, known)).toBe(`; did you mean "${nearest}"?`);
  });

  it.each(['', 'compression', 'x'.repeat(100_000)])('is absent if no name is close (%#)', (name) => {
    expect(didYouMean(name, ['host', 'port', 'tls'])).toBe('');
  });
});

it.each([
  ['loging', ['signing', 'tracing', 'audit']],
  ['login', ['signing', 'log']],
  ['key', ['tls', 'log']],
  ['b', ['a']],
])('%s, among %j, has no suggestion that is merely as long', (name, known) => {
  expect(didYouMean(name, known)).toBe('');
});

describe('an unknown name of a few', () => {
  it('is followed by the nearest, or by all of them', () => {
    expect(didYouMeanOneOf('sandbx', ['sandbox', 'production'])).toBe('; did you mean "sandbox"?');
    expect(didYouMeanOneOf('staging', ['sandbox', 'production'])).toBe('; known: sandbox, production');
    expect(didYouMeanOneOf('staging', [])).toBe('; there are none');
  });

  it('is not followed by a list without end', () => {
    const names = Array.from({ length: 15 }, (_, index) => `environment-${index}`);
    expect(didYouMeanOneOf('x', names)).toMatch(/, environment-11, and 3 more$/);
  });
});

it('a name is suggested if at most a third of its characters differ', () => {
  expect(didYouMean('abcdxx', ['abcdef'])).toBe('; did you mean "abcdef"?');
  expect(didYouMean('abcxxx', ['abcdef'])).toBe('');
});
