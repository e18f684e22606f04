import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { type Config, configSchema } from '../../../src/config/schema.ts';
import { ProxyError } from '../../../src/errors.ts';
import { resolveLogin } from '../../../src/gateway/login.ts';
import { endpointOf, readOnlyQuery } from '../../../src/gateway/read-only-query.ts';
import { createRoutes, pathAdvice } from '../../../src/gateway/router.ts';
import { isStatusPath, statusPathOf } from '../../../src/gateway/status-path.ts';
import { identifierPattern } from '../../../src/identifiers.ts';
import { publishedOperations } from '../../support/scenario.ts';

const hmac = { signature: 'HMAC-SHA1', loginFrom: 'header', readOnly: true } as const;

function config(more: object = {}): Config {
  return configSchema.parse({
    environments: {
      sandbox: { baseUrl: 'https://sandbox.gateway.test', product: 'gw' },
      production: {
        baseUrl: 'https://gateway.test:8443/edge/',
        product: 'pay',
        operations: { transfer: { signature: 'HMAC-SHA1' } },
      },
    },
    keys: { source: 'directory', directory: 'keys' },
    ...more,
  });
}

function reasonOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof ProxyError) return error.reason;
    throw error;
  }
  return 'none';
}

describe('a request target', () => {
  const { resolve } = createRoutes(config());

  it('is rewritten below the base URL of its environment', () => {
    const { url, environment } = resolve('/production/pay/api/v4/transfer/a%40b~c');
    expect(url.href).toBe('https://gateway.test:8443/edge/pay/api/v4/transfer/a%40b~c');
    expect(environment).toBe('production');
  });

  it('finds the operation with the overrides of its environment', () => {
    expect(resolve('/sandbox/gw/api/v4/transfer/1').operation.signature).toBe('RSA-SHA256');
    expect(resolve('/production/pay/api/v4/transfer/1').operation.signature).toBe('HMAC-SHA1');
  });

  it('has precedence for a field of its environment over that of all environments', () => {
    const { resolve: both } = createRoutes(
      config({ operations: { transfer: { signature: 'RSA-SHA256', loginFrom: 'body' } } }),
    );
    const { operation } = both('/production/pay/api/v4/transfer/1');
    expect(operation.signature).toBe('HMAC-SHA1');
    expect(operation.loginFrom).toBe('body');
  });

  it('with another product is told the right one only where the client may know the environment', () => {
    const target = '/production/gw/api/v4/transfer/1';
    const right = 'The product of production is "pay": use /production/pay/api/.';
    const detailFor = (environments: readonly string[], wrong = target): string => {
      const mayKnow = (environment: string) => environments.includes(environment);
      try {
        resolve(wrong, { mayKnow });
      } catch (error) {
        if (error instanceof ProxyError) return error.detail;
      }
      return '';
    };
    const general = detailFor([]);
    expect(general).toMatch(/check the spelling of the environment, of the product and of the operation\.$/);
    expect(detailFor(['sandbox'])).toBe(general);
    expect(detailFor(['production'])).toBe(`${general} ${right}`);
    expect(detailFor(['production'], '/production/api/v4/transfer/1')).toBe(`${general} ${right}`);
    expect(detailFor(['production'], '/nowhere/gw/api/v4/transfer/1')).toBe(general);
    expect(detailFor(['production'], '/production/pay/api/v4/nothing/1')).toBe(general);
  });

  it('returns the values of its path', () => {
    expect(resolve('/sandbox/gw/api/v4/status/12').values).toEqual({ endpoint: '12' });
    expect(resolve('/sandbox/gw/api/v4/status/group/7').values).toEqual({ endpointGroup: '7' });
    expect(resolve('/sandbox/gw/api/v2/get-balance/manager/%61').values).toEqual({ login: 'a' });
  });

  it('is unknown in the product of another environment', () => {
    expect(reasonOf(() => resolve('/production/gw/api/v4/transfer/1'))).toBe('unknown-route');
  });

  it('is matched before its values are validated', () => {
    expect(reasonOf(() => resolve('/sandbox/gw/api/v4/transfer/../more'))).toBe('unknown-route');
    expect(reasonOf(() => resolve('/sandbox/gw/api/v4/transfer/..'))).toBe('parameter-invalid');
  });

  it('either goes to its environment’s gateway, below its product, or is rejected', () => {
    const segment = fc.oneof(
      fc.constantFrom('sandbox', 'production', 'gw', 'pay', 'api', 'v2', 'v4', 'status', 'group', 'transfer'),
      fc.constantFrom('..', '.', '', '%2e%2e', '%2f', '@evil.test', ':443', '\\', '#', '%00', '__proto__'),
      fc.string({ maxLength: 6 }),
    );
    fc.assert(
      fc.property(fc.array(segment, { maxLength: 8 }), (segments) => {
        const target = `/${segments.join('/')}`;
        try {
          const { url } = resolve(target);
          expect(url.href).toMatch(
            /^https:\/\/(sandbox\.gateway\.test\/gw|gateway\.test:8443\/edge\/pay)\/api\/[\w.~%/-]+$/,
          );
        } catch (error) {
          if (!(error instanceof ProxyError)) throw error;
          expect(['unknown-route', 'parameter-invalid']).toContain(error.reason);
        }
      }),
    );
  });
});

describe('operations of the configuration', () => {
  it('may use different placeholders for the same segment', () => {
    const { resolve } = createRoutes(
      config({ operations: { cancel: { ...hmac, path: '/api/v4/transfer/{endpointGroup}/cancel' } } }),
    );
    const { url, values } = resolve('/sandbox/gw/api/v4/transfer/7/cancel');
    expect(url.pathname).toBe('/gw/api/v4/transfer/7/cancel');
    expect(values).toEqual({ endpointGroup: '7' });
    expect(resolve('/sandbox/gw/api/v4/transfer/7').values).toEqual({ endpoint: '7' });
  });

  it('may hold several values', () => {
    const { resolve } = createRoutes(
      config({ operations: { both: { ...hmac, path: '/api/v9/{login}/at/{endpoint}' } } }),
    );
    const { values } = resolve('/sandbox/gw/api/v9/acme/at/7');
    expect(values).toEqual({ login: 'acme', endpoint: '7' });
  });
});

describe('an identifier', () => {
  it.each(['a', '...', '.a', 'a@b.c', 'A-Z_0~9', 'x'.repeat(128)])('may be %s', (text) => {
    expect(identifierPattern.test(text)).toBe(true);
  });

  it.each(['', '.', '..', 'a/b', 'a\n', 'a b', 'a%', 'é', 'a;b', 'x'.repeat(129)])(
    'may not be %j',
    (text) => {
      expect(identifierPattern.test(text)).toBe(false);
    },
  );
});

describe('the advice on a path without a route', () => {
  it.each([
    ['/sandbox/gw/api/v4/transfer/1/', 'Remove the slash at the end of the path.'],
    ['/', 'Begin the path with /{environment}/{product}/api/.'],
    ['/sandbox/gw//api/v4/transfer/1', 'Remove the empty segment from the path.'],
    ['/Sandbox/gw/api/v4/transfer/1', 'Check the capital letters in the path: paths are case-sensitive.'],
    ['/sandbox/gw/API/v4/transfer/1', 'Check the capital letters in the path: paths are case-sensitive.'],
    ['/api/v4/transfer/1', 'Put the environment and the product before /api/.'],
    [
      '/gw/api/v4/transfer/1',
      /^Put both the environment and the product before \/api\/: there is only one segment\.$/,
    ],
    ['/a/b/c/api/v4/transfer/1', 'Put nothing but the environment and the product before /api/.'],
    ['/sandbox/gw/v4/transfer/1', 'Begin the path with /{environment}/{product}/api/.'],
    [
      '/Gw/api/v4/',
      'Remove the slash at the end of the path. Check the capital letters in the path: paths are case-sensitive. Put both the environment and the product before /api/: there is only one segment.',
    ],
  ])('for %s says what to correct', (target, advice) => {
    const given = pathAdvice(target);
    if (typeof advice === 'string') expect(given).toBe(advice);
    else expect(given).toMatch(advice);
  });

  it.each([
    '/sandbox/gw/api/v4/transfr/1',
    '/nowhere/gw/api/v4/transfer/1',
    '/x/y/api/v2/get-balance/manager/ACME',
  ])('for %s, which has nothing odd, is none', (target) => {
    expect(pathAdvice(target)).toBeUndefined();
  });

  it.each(['/', '', '*', '//', '/%2e%2e/', `/${'a/'.repeat(8_000)}`])('does not repeat %j', (target) => {
    expect(pathAdvice(target)?.length).toBeLessThan(250);
  });
});

const { resolve } = createRoutes(
  configSchema.parse({
    environments: {
      sandbox: { baseUrl: 'https://gateway.test', product: 'gw', endpoints: { 12: 'acme', 7: 'beta' } },
    },
    operations: { ping: { path: '/api/ping', signature: 'HMAC-SHA1', loginFrom: 'header' } },
    keys: { source: 'directory', directory: 'keys' },
  }),
);

describe('the login of a request without a login', () => {
  it.each([
    ['/sandbox/gw/api/v4/status/12', 'acme'],
    ['/sandbox/gw/api/v4/status/group/7', 'beta'],
    ['/sandbox/gw/api/v4/transfer/12', 'acme'],
  ])('is found in the map of endpoints: %s', (target, login) => {
    expect(resolveLogin(resolve(target), [], undefined)).toBe(login);
  });

  it.each(['13', 'constructor', 'toString'])('is missing if the map has no endpoint %s', (endpoint) => {
    const destination = resolve(`/sandbox/gw/api/v4/transfer/${endpoint}`);
    expect(() => resolveLogin(destination, [], undefined)).toThrow('login-missing');
  });

  it('names the endpoint that is not mapped, and where to map it', () => {
    const destination = resolve('/sandbox/gw/api/v4/transfer/13');
    expect(() => resolveLogin(destination, [], undefined)).toThrow(
      /Endpoint 13 is not mapped to a login\..* environments\.sandbox\.endpoints /,
    );
  });

  it('is requested in the header where the path has no endpoint', () => {
    expect(() => resolveLogin(resolve('/sandbox/gw/api/ping'), [], undefined)).toThrow(
      'login-missing: No login in the request. Send the header Countersign-Login.',
    );
  });

  it('is requested in the body where it belongs there', () => {
    const destination = resolve('/sandbox/gw/api/v4/status/13');
    expect(() => resolveLogin(destination, [], undefined)).toThrow('Send the body parameter "login".');
  });
});

describe('two logins in a request', () => {
  const header = 'the header Countersign-Login';
  const endpoint = 'the configuration of the endpoint';
  it.each([
    [
      '/sandbox/gw/api/v2/get-balance/manager/acme',
      [],
      'beta',
      `The path and ${header} have different logins.`,
    ],
    [
      '/sandbox/gw/api/v4/status/12',
      [['login', 'beta']],
      undefined,
      `The body parameter "login" and ${endpoint} have different logins.`,
    ],
    [
      '/sandbox/gw/api/v4/status/12',
      [['login', 'acme']],
      'beta',
      `The body parameter "login" and ${header} have different logins.`,
    ],
    [
      '/sandbox/gw/api/v4/transfer/12',
      [],
      'beta',
      `The header Countersign-Login and ${endpoint} have different logins.`,
    ],
    [
      '/sandbox/gw/api/v4/status/9',
      [
        ['login', 'a'],
        ['login', 'b'],
      ],
      'a',
      'The body parameter "login" appears with different values.',
    ],
  ] as const)(
    'are rejected with the two places that differ, and no login: %s %j %s',
    (target, form, given, conflict) => {
      const advice = conflict.includes(endpoint)
        ? 'Endpoint 12 has its login in environments.sandbox.endpoints, so it needs none in the request: send that login or none, or use the endpoint of the other login.'
        : 'Send one login.';
      expect(() => resolveLogin(resolve(target), form, given)).toThrow(
        `login-conflict: ${conflict} ${advice}`,
      );
    },
  );
});

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

/** Of a payment to this path of endpoint 12, whose caller may use these operations. */
function queryOf(path: string, allowed: readonly string[] = [], operations: object = publishedOperations) {
  const gateway = { baseUrl: 'https://gateway.test', product: 'gw' };
  const config = configSchema.parse({
    environments: { sandbox: gateway },
    keys: { source: 'directory', directory: 'keys' },
    operations,
  });
  const { operations: table, resolve } = createRoutes(config);
  return statusPathOf(table, resolve(`/sandbox/gw/api/${path}/12`), (name) => allowed.includes(name));
}
const [v2, v4] = ['/sandbox/gw/api/v2/status/12', '/sandbox/gw/api/v4/status/12'];

it('a payment is queried as it was signed', () => {
  expect(queryOf('v2/sale')).toBe(v2);
  expect(queryOf('v4/transfer')).toBe(v4);
  expect(queryOf('v2/pan-eligibility/send')).toBe(v4);
});

it('first of all it is queried by what its caller may use', () => {
  expect(queryOf('v2/sale', ['sale-v2', 'order-status'])).toBe(v4);
  expect(queryOf('v4/transfer', ['transfer', 'status-v2'])).toBe(v2);
  expect(queryOf('v2/sale', ['order-status', 'status-v2'])).toBe(v2);
});

it('a query that needs more than the order ID of the merchant is none, and so is what is no query', () => {
  const strict = { 'status-v2': { ...publishedOperations['status-v2'], parameters: {} } };
  expect(queryOf('v2/sale', ['status-v2'], { ...publishedOperations, ...strict })).toBe(v4);
  expect(
    queryOf('v4/transfer', [], { 'order-status': { parameters: { orderid: { required: true } } } }),
  ).toBe(undefined);
  expect(queryOf('v4/transfer', [], { 'order-status': { readOnly: false } })).toBe(undefined);
});

it.each([
  '/sandbox/gw/api/v4/status/1234',
  '/sandbox/gw/api/v4/status/group/77',
  '/production/pay/api/v5/status/a%40b.c~d_e-f',
])('%s is the path of a query', (path) => {
  expect(isStatusPath(path)).toBe(true);
});

// A log line may be made by anyone: what is sent to such a path must be no payment, and go to Countersign.
it.each([
  '/sandbox/gw/api/v4/transfer/1234',
  '/sandbox/gw/api/v4/transfer/status/1234',
  '/sandbox/gw/api/v4/status/..',
  '/sandbox/gw/api/v4/status/../transfer/1234',
  '/sandbox/gw/api/v4/status/%2e%2e%2ftransfer',
  '/sandbox/gw/api/v4/status/1234?a=b',
  '/sandbox/gw/api/v4/status/1234#',
  '/sandbox/gw/api/v4/status/1234/5',
  '//gateway.example/gw/api/v4/status/1234',
  'https://gateway.example/sandbox/gw/api/v4/status/1234',
  '/sandbox/gw/api/v4/status/',
  '/sandbox/gw/api/v4/status/12\n34',
  '',
])('%j is none', (path) => {
  expect(isStatusPath(path)).toBe(false);
});
