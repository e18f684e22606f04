import { beforeEach, describe, expect, it } from '@jest/globals';
import { assert, json, property } from 'fast-check';
import { parseStrictJson } from '../../../../src/auth/jwt/strict-json.ts';
import { anyCharacter } from '../../../support/any-character.ts';

it('reads any JSON as JSON.parse does', () => {
  assert(
    property(json({ stringUnit: anyCharacter }), (text) => {
      expect(parseStrictJson(text, 1000)).toEqual(JSON.parse(text));
    }),
  );
});

it.each([
  ['{"a":1,"a":1}'],
  ['{"a":1,"\\u0061":2}'],
  ['{ "a" : 1 , "b" : { "c" : 1 , "c" : 2 } }'],
  ['[[{"a":{"x":1}},{"a":1,"b":[],"a":2}]]'],
  ['{"":1,"":2}'],
  ['{"__proto__":1,"__proto__":2}'],
  ['{"a\\"":1,"a\\"":2}'],
  ['{"a":":","b":"\\\\","a":2}'],
])('rejects the name that occurs twice in %s', (text) => {
  expect(() => JSON.parse(text)).not.toThrow();
  expect(parseStrictJson(text, 10)).toBeUndefined();
});

describe('after V8 has parsed a text that makes it read escaped names as others (nodejs/node issue 63785)', () => {
  beforeEach(() => {
    for (const name of ['iss', 'alg', 'sub']) JSON.parse(`{"x":1,"${name}":2,"\\\\u0":3}`);
    JSON.parse('{"iss":"x","sub":"y","\\\\u0":"z"}');
    JSON.parse('{"alg":"x","\\\\u0":"z"}');
  });

  it('a name that occurs twice is rejected, whichever of the two is escaped', () => {
    expect(parseStrictJson('{"iss":"x","sub":"a","\\u0073ub":"b"}', 8)).toBeUndefined();
    expect(parseStrictJson('{"iss":"x","\\u0073ub":"a","sub":"b"}', 8)).toBeUndefined();
  });

  it('no name is hidden: the value has it, or there is none', () => {
    const value = parseStrictJson('{"alg":"RS256","\\u006aku":"https://a.example"}', 8);
    expect([undefined, { alg: 'RS256', jku: 'https://a.example' }]).toContainEqual(value);
  });
});

it.each([
  ['{"a":{"a":{"a":1}}}'],
  ['[{"a":1},{"a":2}]'],
  ['{"a":"a","b":"a"}'],
  ['{"a":"{\\"b\\":1,\\"b\\":2}"}'],
  ['{"a":["b","b"]}'],
  ['{"a":1,"A":2}'],
])('accepts %s, where none does', (text) => {
  expect(parseStrictJson(text, 10)).toEqual(JSON.parse(text));
});

it.each(['', '{', '{"a":1', '{"a":1,}', "{'a':1}", 'undefined', '{"a":1} x', '{a:1}', ':', '"'])(
  'rejects %p, which is no JSON',
  (text) => {
    expect(parseStrictJson(text, 10)).toBeUndefined();
  },
);

it('limits the depth', () => {
  expect(parseStrictJson('[[{}]]', 3)).toEqual([[{}]]);
  expect(parseStrictJson('[[{}]]', 2)).toBeUndefined();
  expect(parseStrictJson('['.repeat(100_000), 10)).toBeUndefined();
  expect(parseStrictJson('"[[[[["', 1)).toBe('[[[[[');
});

it.each([
  ['a string that does not end', `"${'\\"'.repeat(30_000)}`],
  ['a name before many colons', `"${'a'.repeat(30_000)}"${':'.repeat(30_000)}`],
])('takes no longer for text that is not JSON: %s', (_, text) => {
  const began = process.cpuUsage();
  expect(parseStrictJson(text, 8)).toBeUndefined();
  // Two seconds where the names were checked first.
  expect(process.cpuUsage(began).user).toBeLessThan(500_000);
});
