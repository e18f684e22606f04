import { describe, expect, it } from '@jest/globals';
import { misnamedKeys, shownFields } from '../../../src/keys/field-names.ts';
import { parseKeys } from '../../../src/keys/key.ts';

const secret = 'MARK-7f1c2c5e';

describe('a key in another field', () => {
  it.each<[string, object, string, string]>([
    [
      'private-key',
      { 'private-key': secret },
      'private_key',
      'but private-key, which is not read; rename it',
    ],
    ['PRIVATE_KEY', { PRIVATE_KEY: secret }, 'private_key', 'but PRIVATE_KEY, which is not read; rename it'],
    ['privateKey', { privateKey: secret }, 'private_key', 'but privateKey, which is not read'],
    [
      'private_key.pem',
      { 'private_key.pem': secret },
      'private_key',
      'but private_key.pem, which is not read',
    ],
    ['rsa_private_key', { rsa_private_key: secret }, 'private_key', 'but rsa_private_key, which is not read'],
    ['control-key', { 'control-key': secret }, 'control_key', 'but control-key, which is not read'],
    ['CONTROL_KEY', { CONTROL_KEY: secret }, 'control_key', 'but CONTROL_KEY, which is not read'],
    ['controlKey', { controlKey: secret }, 'control_key', 'but controlKey, which is not read'],
    ['contol_key', { contol_key: secret }, 'control_key', 'but contol_key, which is not read'],
    ['transit-key', { 'transit-key': 'acme:3' }, 'private_key', 'but transit-key, which is not read'],
    ['data', { data: { control_key: secret } }, 'control_key', 'but one like it below data'],
    [
      'data.data',
      { data: { private_key: secret }, metadata: {} },
      'private_key',
      'but one like it below data',
    ],
    [
      'JSON text',
      { value: JSON.stringify({ control_key: secret }) },
      'control_key',
      'but one like it below value',
    ],
    [
      'a stored response of Vault',
      { request_id: 'r', data: { data: { control_key: secret }, metadata: {} } },
      'control_key',
      'but one like it below data',
    ],
    ['a nested other name', { keys: { PrivateKey: secret } }, 'private_key', 'but one like it below keys'],
  ])('%s is named, with the fields of the secret', (_name, fields, kind, problem) => {
    const [found, ...more] = misnamedKeys(fields);
    expect(more).toEqual([]);
    expect(found?.kind).toBe(kind);
    expect(found?.problem).toContain(problem);
    expect(found?.problem).toContain('(its fields: ');
    expect(found?.problem).not.toContain(secret);
    expect(parseKeys(fields, { version: 1 })).toEqual([{ ...found, version: 1 }]);
  });

  it('of both kinds are two problems', () => {
    const kinds = misnamedKeys({ data: { control_key: secret, private_key: secret } }).map(
      ({ kind }) => kind,
    );
    expect(kinds).toEqual(['control_key', 'private_key']);
  });

  it.each<[string, object]>([
    ['beside the right one', { control_key: secret, 'control-key': secret }],
    ['beside a key in Transit', { transit_key: 'acme:3', PRIVATE_KEY: secret }],
    ['that was emptied', { 'private-key': '' }],
    [
      'that is something else',
      { public_key: secret, note: secret, passphrase: secret, old: { note: secret } },
    ],
  ])('%s is no problem', (_name, fields) => {
    expect(misnamedKeys(fields)).toEqual([]);
  });
});

it('only names that are words are shown, and no more than ten', () => {
  expect(shownFields({})).toBe(' (it has no fields)');
  expect(shownFields({ note: 1, '7f1c2c5e-8a35-4a4f': 1, 'a b': 1 })).toBe(' (its fields: note, 2 more)');
  expect(shownFields({ d6a3f1b29c: secret })).toBe(' (its fields: 1 more)');
  const many = Object.fromEntries('abcdefghijkl'.split('').map((name) => [name, 1]));
  expect(shownFields(many)).toBe(' (its fields: a, b, c, d, e, f, g, h, i, j, 2 more)');
});
