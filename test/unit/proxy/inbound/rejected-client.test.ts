import { describe, expect, it } from '@jest/globals';
import { configSchema } from '../../../../src/config/schema.ts';
import { createRoutes } from '../../../../src/gateway/router.ts';
import { rejectedTarget } from '../../../../src/proxy/inbound/rejected-client.ts';

const { resolve } = createRoutes(
  configSchema.parse({
    environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw' } },
    keys: { source: 'directory', directory: 'keys' },
  }),
);
const lookup = { resolve, isKnownLogin: ({ login }: { login: string }) => login === 'acme' };
const facts = { environment: 'sandbox', operation: 'manager-balance' };
const path = '/sandbox/gw/api/v2/get-balance/manager/ghost';

describe('the target of a rejected request', () => {
  it('before authentication is the environment and operation that the path resolves to, without the login', () => {
    expect(rejectedTarget({}, undefined, path, lookup)).toEqual(facts);
  });

  it.each(['/', '/nowhere/gw/api/v4/transfer/1', '/sandbox/gw/api/v4/transfer/%20', '*', '/%zz/%zz'])(
    'is absent if the path %s does not resolve',
    (target) => {
      expect(rejectedTarget({}, undefined, target, lookup)).toEqual({});
    },
  );

  it.each([
    ['acme', 'acme'],
    ['ghost', 'unknown'],
  ])('after authorization has the login %s as %s', (denied, login) => {
    expect(rejectedTarget(facts, denied, path, lookup)).toEqual({ login });
  });
});
