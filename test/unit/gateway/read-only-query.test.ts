import { describe, expect, it } from '@jest/globals';
import { type Config, configSchema } from '../../../src/config/schema.ts';
import { endpointOf, readOnlyQuery } from '../../../src/gateway/read-only-query.ts';
import { createRoutes } from '../../../src/gateway/router.ts';

function configWith(operations: object = {}): Config {
  return configSchema.parse({
    environments: {
      sandbox: {
        baseUrl: 'https://gateway.test',
        product: 'gw',
        endpoints: { 7: 'beta', 12: 'acme', 13: 'acme' },
        operations,
      },
    },
    keys: { source: 'directory', directory: 'keys' },
  });
}

const about = { environment: 'sandbox', login: 'acme', endpoint: '12', clientOrderId: 'o-1' };

describe('a read-only query', () => {
  it('for an RSA key is an order status query', () => {
    expect(readOnlyQuery(createRoutes(configWith()), about, 'RSA-SHA256')).toMatchObject({
      destination: { url: new URL('https://gateway.test/gw/api/v4/status/12') },
      form: [
        ['login', 'acme'],
        ['client_orderid', 'o-1'],
      ],
    });
  });

  it('for a control key is a balance query', () => {
    expect(readOnlyQuery(createRoutes(configWith()), about, 'HMAC-SHA1')).toMatchObject({
      destination: { url: new URL('https://gateway.test/gw/api/v2/get-balance/manager/acme') },
      form: [],
    });
  });

  it('is never an operation that is not configured as read-only', () => {
    const config = configWith({ 'order-status': { readOnly: false } });
    expect(readOnlyQuery(createRoutes(config), about, 'RSA-SHA256')).toBe('no-operation');
  });

  it('is absent without an endpoint or an environment', () => {
    const config = configWith();
    expect(readOnlyQuery(createRoutes(config), { ...about, endpoint: undefined }, 'RSA-SHA256')).toBe(
      'no-endpoint',
    );
    expect(
      readOnlyQuery(createRoutes(config), { ...about, endpoint: undefined }, 'HMAC-SHA1'),
    ).toHaveProperty('form');
    expect(readOnlyQuery(createRoutes(config), { ...about, environment: 'other' }, 'HMAC-SHA1')).toBe(
      'no-operation',
    );
  });
});

it('the endpoint of a login is the first one mapped to it', () => {
  expect(endpointOf(configWith(), about)).toBe('12');
  expect(endpointOf(configWith(), { ...about, login: 'gamma' })).toBeUndefined();
  expect(endpointOf(configWith(), { ...about, environment: 'other' })).toBeUndefined();
});
