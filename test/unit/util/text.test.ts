import { describe, expect, it } from '@jest/globals';
import { safeStackFrames } from '../../../src/util/stack-frames.ts';
import { didYouMean, didYouMeanOneOf } from '../../../src/util/text.ts';

describe('the suggestion for an unknown name', () => {
  it.each([
    ['sandbx', ['production', 'sandbox'], 'sandbox'],
    ['BASEURL', ['product', 'baseUrl'], 'baseUrl'],
    ['tokenSHA', ['tokenSha256'], 'tokenSha256'],
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
});

it('a name is suggested if at most a third of its characters differ', () => {
  expect(didYouMean('abcdxx', ['abcdef'])).toBe('; did you mean "abcdef"?');
  expect(didYouMean('abcxxx', ['abcdef'])).toBe('');
});

function withStack(message: string, stack: string): Error {
  return Object.assign(new Error(message), { stack });
}

it('a message that looks like frames is removed', () => {
  const error = new Error('x\n    at card4111 (/y:1:1)\n    at file:///cvv:1:1');
  expect(safeStackFrames(error).join('\n')).not.toMatch(/4111|cvv/);
});

it('a line that is not in the format of a frame is dropped', () => {
  const stack = 'Error: was\n    at a (/src/b.ts:1:2)\nsecret\n    at "q" (/c:1:1)\n    at /d e:1:1';
  expect(safeStackFrames(withStack('is', stack))).toEqual(['at a (/src/b.ts:1:2)']);
});

it('frames of methods, constructors, async functions and node itself are kept', () => {
  const frames = [
    'at new ProxyError (file:///app/src/errors.ts:86:5)',
    'at async Keys.<anonymous> (/app/src/keys/key-cache.ts:20:13)',
    'at Object.read [as get] (/app/src/keys/vault.ts:3:1)',
    'at node:internal/process/task_queues:105:5',
  ];
  const stack = `Error: m\n${frames.map((frame) => `    ${frame}`).join('\n')}`;
  expect(safeStackFrames(withStack('m', stack))).toEqual(frames);
});

it('at most twenty frames are kept, and an error without a stack has none', () => {
  expect(safeStackFrames(withStack('', '    at a (/b:1:1)\n'.repeat(50)))).toHaveLength(20);
  const error = new Error('x');
  delete error.stack;
  expect(safeStackFrames(error)).toEqual([]);
});
