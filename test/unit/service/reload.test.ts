import { expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { fieldsForRestart } from '../../../src/service/reload.ts';

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
