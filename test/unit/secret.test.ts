import { format, inspect } from 'node:util';
import { deserialize, serialize } from 'node:v8';
import { describe, expect, it } from '@jest/globals';
import { reveal, Secret, sameSecret } from '../../src/secret.ts';

const planted = 'planted-secret-text';
const secret = new Secret(planted);
const nested = {
  login: 'acme',
  key: { kind: 'control_key', secret },
  list: [secret],
  map: new Map([[secret, secret]]),
};

describe('a Secret', () => {
  it('gives its text to reveal(), and no other access to it', () => {
    expect(reveal(secret)).toBe(planted);
    expect(Reflect.ownKeys(secret)).toEqual([]);
  });

  it.each<[name: string, show: () => unknown]>([
    ['String', () => String(secret)],
    // oxlint-disable-next-line typescript/restrict-template-expressions -- that mistake is what is tried here
    ['a template literal', () => `key ${secret}`],
    ['JSON.stringify of what holds it', () => JSON.stringify(nested)],
    ['util.inspect of what holds it', () => inspect(nested, { depth: null })],
    [
      'util.inspect with hidden fields',
      () => inspect(nested, { depth: null, showHidden: true, getters: true }),
    ],
    ['console.log with %s', () => format('%s %s', secret, nested)],
    ['console.log with %o and %O', () => format('%o %O', secret, nested)],
    ['console.log with %j', () => format('%j %j', secret, nested)],
    ['an error that has what holds it as cause', () => inspect(new Error('failed', { cause: nested }))],
    ['a spread copy', () => inspect(Object.assign({}, secret))],
    ['serialized bytes', () => inspect(deserialize(serialize(nested)), { depth: null, showHidden: true })],
    ['an error of code that expected a text', () => inspect(errorOf(() => Buffer.from(Object(secret))))],
  ])('does not show its text to %s', (_name, show) => {
    expect(show()).toEqual(expect.any(String));
    expect(show()).not.toContain(planted);
  });

  it('is printed as a placeholder', () => {
    for (const shown of [String(secret), JSON.parse(JSON.stringify(secret)), inspect(secret)])
      expect(shown).toBe('[secret]');
  });
});

function errorOf(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

it('a Secret can be compared without being revealed', () => {
  expect(sameSecret(new Secret('a key'), new Secret('a key'))).toBe(true);
  expect(sameSecret(new Secret('a key'), new Secret('another'))).toBe(false);
});
