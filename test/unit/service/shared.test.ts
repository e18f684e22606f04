import { expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { loginsIn } from '../../../src/service/shared.ts';

it('the logins that the log may name are those of endpoints and of grants, but not patterns', () => {
  const environment = (endpoints: object) => ({
    baseUrl: 'https://gateway.example',
    product: 'gw',
    endpoints,
  });
  const grant = (...logins: string[]) => ({ environments: ['*'], operations: ['*'], logins });
  const anonymous = [{ anonymous: true }];
  const config = configSchema.parse({
    environments: { sandbox: environment({ 1: 'one', 2: 'two' }), live: environment({ 1: 'three' }) },
    keys: { source: 'directory', directory: '/keys' },
    callers: [
      { name: 'a', credentials: anonymous, allow: [grant('four', 'shop-*'), grant('*', 'five')] },
      { name: 'b', credentials: [{ tokenSha256: 'a'.repeat(64) }], allow: [grant('six')] },
    ],
  });
  expect(loginsIn(config).sort()).toEqual(['five', 'four', 'one', 'six', 'three', 'two']);
});
