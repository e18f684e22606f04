import { expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { fieldsForRestart } from '../../../src/service/reload.ts';
import { loginsIn } from '../../../src/service/shared.ts';

const audit = { directory: '/audit', keyFile: '/audit/key' };
const configOf = (overrides: object = {}) =>
  configSchema.parse({
    environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw' } },
    keys: { source: 'directory', directory: '/keys' },
    audit,
    ...overrides,
  });

it.each([
  ['audit', { audit: { ...audit, required: true } }],
  ['log.level', { log: { level: 'debug' } }],
])('a reload that changes %s needs a restart', (field, overrides) => {
  expect(fieldsForRestart(configOf(), configOf(overrides))).toEqual([field]);
  expect(fieldsForRestart(configOf(overrides), configOf(overrides))).toEqual([]);
});

it('the logins that the log may name are those of endpoints and of grants, but not patterns', () => {
  const environment = (endpoints: object) => ({ baseUrl: 'https://g.example', product: 'gw', endpoints });
  const grant = (...logins: string[]) => ({ environments: ['*'], operations: ['*'], logins });
  const config = configOf({
    environments: { sandbox: environment({ 1: 'one', 2: 'two' }), live: environment({ 1: 'three' }) },
    callers: [
      {
        name: 'a',
        credentials: [{ anonymous: true }],
        allow: [grant('four', 'shop-*'), grant('*', 'five')],
      },
      { name: 'b', credentials: [{ tokenSha256: 'a'.repeat(64) }], allow: [grant('six')] },
    ],
  });
  expect(loginsIn(config).sort()).toEqual(['five', 'four', 'one', 'six', 'three', 'two']);
});
