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

/** With these operations of all environments, and of `sandbox`. */
const configOf = (operations: object = {}, ofSandbox: object = {}): Config =>
  configSchema.parse({
    environments: {
      sandbox: {
        baseUrl: 'https://sandbox.gateway.test',
        product: 'gw',
        endpoints: { 7: 'beta', 12: 'acme', 13: 'acme' },
        operations: ofSandbox,
      },
      production: {
        baseUrl: 'https://gateway.test:8443/edge/',
        product: 'pay',
        operations: { transfer: { signature: 'HMAC-SHA1' } },
      },
    },
    keys: { source: 'directory', directory: 'keys' },
    operations,
  });
const config = configOf({ ping: { ...hmac, path: '/api/ping' } });
const { resolve } = createRoutes(config);

function errorOf(action: () => unknown): ProxyError | undefined {
  try {
    action();
  } catch (error) {
    if (error instanceof ProxyError) return error;
    throw error;
  }
  return undefined;
}

describe('a request target', () => {
  it('is rewritten below the base URL of its environment', () => {
    const { url, environment } = resolve('/production/pay/api/v4/transfer/a%40b~c');
    expect(url.href).toBe('https://gateway.test:8443/edge/pay/api/v4/transfer/a%40b~c');
    expect(environment).toBe('production');
  });

  it('finds the operation with the overrides of its environment, which precede those of all', () => {
    expect(resolve('/sandbox/gw/api/v4/transfer/1').operation.signature).toBe('RSA-SHA256');
    const both = createRoutes(configOf({ transfer: { signature: 'RSA-SHA256', loginFrom: 'body' } }));
    const { operation } = both.resolve('/production/pay/api/v4/transfer/1');
    expect(operation).toMatchObject({ signature: 'HMAC-SHA1', loginFrom: 'body' });
  });

  it('with another product is told the right one only where the client may know the environment', () => {
    const target = '/production/gw/api/v4/transfer/1';
    const right = 'The product of production is "pay": use /production/pay/api/.';
    const detailFor = (known: string, wrong = target): string =>
      errorOf(() => resolve(wrong, { mayKnow: (environment: string) => environment === known }))?.detail ??
      '';
    const general = detailFor('');
    expect(general).toMatch(/that operationsFile names your own operations\.$/);
    expect(detailFor('sandbox')).toBe(general);
    for (const wrong of [target, '/production/api/v4/transfer/1'])
      expect(detailFor('production', wrong)).toBe(`${general} ${right}`);
    for (const wrong of ['/nowhere/gw/api/v4/transfer/1', '/production/pay/api/v4/nothing/1'])
      expect(detailFor('production', wrong)).toBe(general);
  });

  const operations = {
    cancel: { ...hmac, path: '/api/v4/transfer/{endpointGroup}/cancel' },
    both: { ...hmac, path: '/api/v9/{login}/at/{endpoint}' },
  };
  it.each([
    ['v4/status/12', { endpoint: '12' }],
    ['v4/status/group/7', { endpointGroup: '7' }],
    ['v2/get-balance/manager/%61', { login: 'a' }],
    // Operations of the configuration may have other placeholders for the same segment, and several.
    ['v4/transfer/7/cancel', { endpointGroup: '7' }],
    ['v4/transfer/7', { endpoint: '7' }],
    ['v9/acme/at/7', { login: 'acme', endpoint: '7' }],
  ])('of %s has the values %j', (path, values) => {
    expect(createRoutes(configOf(operations)).resolve(`/sandbox/gw/api/${path}`).values).toEqual(values);
  });

  it.each([
    ['before its values are validated', '/sandbox/gw/api/v4/transfer/../more', 'unknown-route'],
    ['and its values are validated', '/sandbox/gw/api/v4/transfer/..', 'parameter-invalid'],
    ['as a whole, from its first character', 'x/sandbox/gw/api/v4/transfer/1', 'unknown-route'],
  ])('is matched %s', (_, target, reason) => {
    expect(errorOf(() => resolve(target))).toMatchObject({ reason });
  });

  it('either goes to its environment’s gateway, below its product, or is rejected', () => {
    const segment = fc.oneof(
      fc.constantFrom('sandbox', 'production', 'gw', 'pay', 'api', 'v2', 'v4', 'status', 'group', 'transfer'),
      fc.constantFrom('..', '.', '', '%2e%2e', '%2f', '@evil.test', ':443', '\\', '#', '%00', '__proto__'),
      fc.string({ maxLength: 6 }),
    );
    fc.assert(
      fc.property(fc.array(segment, { maxLength: 8 }), (segments) => {
        let href = '';
        const error = errorOf(() => ({ href } = resolve(`/${segments.join('/')}`).url));
        if (error !== undefined) expect(['unknown-route', 'parameter-invalid']).toContain(error.reason);
        else
          expect(href).toMatch(
            /^https:\/\/(sandbox\.gateway\.test\/gw|gateway\.test:8443\/edge\/pay)\/api\/[\w.~%/-]+$/,
          );
      }),
    );
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
  const capitals = 'Check the capital letters in the path: paths are case-sensitive.';
  const begin = 'Begin the path with /{environment}/{product}/api/.';
  const oneSegment = 'Put both the environment and the product before /api/: there is only one segment.';
  const slash = 'Remove the slash at the end of the path.';
  it.each([
    ['/sandbox/gw/api/v4/transfer/1/', slash],
    ['/', begin],
    ['/sandbox/gw//api/v4/transfer/1', 'Remove the empty segment from the path.'],
    ['/Sandbox/gw/api/v4/transfer/1', capitals],
    ['/sandbox/gw/API/v4/transfer/1', capitals],
    ['/api/v4/transfer/1', 'Put the environment and the product before /api/.'],
    ['/gw/api/v4/transfer/1', oneSegment],
    ['/a/b/c/api/v4/transfer/1', 'Put nothing but the environment and the product before /api/.'],
    ['/sandbox/gw/v4/transfer/1', begin],
    ['/Gw/api/v4/', `${slash} ${capitals} ${oneSegment}`],
    // These have nothing odd.
    ['/sandbox/gw/api/v4/transfr/1', undefined],
    ['/nowhere/gw/api/v4/transfer/1', undefined],
    ['/x/y/api/v2/get-balance/manager/ACME', undefined],
  ])('for %s: %s', (target, advice) => expect(pathAdvice(target)).toBe(advice));

  it.each(['/', '', '*', '//', '/%2e%2e/', `/${'a/'.repeat(8_000)}`])('does not repeat %j', (target) => {
    expect(pathAdvice(target)?.length).toBeLessThan(250);
  });
});

describe('the login of a request', () => {
  const loginOf =
    (path: string, form: readonly (readonly [string, string])[] = [], given?: string) =>
    () =>
      resolveLogin(resolve(`/sandbox/gw/api/${path}`), form, given);

  it.each([
    ['v4/status/12', 'acme'],
    ['v4/status/group/7', 'beta'],
    ['v4/transfer/12', 'acme'],
  ])('without one is found in the map of endpoints: %s', (path, login) => {
    expect(loginOf(path)()).toBe(login);
  });

  it.each([
    ['v4/transfer/constructor', 'login-missing'],
    ['v4/transfer/14', /Endpoint 14 is not mapped to a login\..* environments\.sandbox\.endpoints /],
    ['ping', 'login-missing: No login in the request. Send the header Countersign-Login.'],
    ['v4/status/14', 'Send the body parameter "login".'],
  ])('is missing, and the error says where it belongs: %s', (path, error) => {
    expect(loginOf(path)).toThrow(error);
  });

  const send = 'have different logins. Send one login.';
  const unmap =
    'have different logins. Endpoint 12 has its login in environments.sandbox.endpoints: send that login, or use the endpoint of the other one.';
  const [body, header] = ['body parameter "login"', 'header Countersign-Login'];
  const mapped = 'the configuration of the endpoint';
  it.each<[path: string, form: string, given: string | undefined, error: string]>([
    ['v2/get-balance/manager/acme', '', 'beta', `The path and the ${header} ${send}`],
    ['v4/status/12', 'login=beta', undefined, `The ${body} and ${mapped} ${unmap}`],
    ['v4/status/12', 'login=acme', 'beta', `The ${body} and the ${header} ${send}`],
    ['v4/transfer/12', '', 'beta', `The ${header} and ${mapped} ${unmap}`],
    ['v4/status/9', 'login=a&login=b', 'a', `The ${body} appears with different values. Send one login.`],
  ])('is rejected if there are two, with the places that differ: %s %s %s', (path, form, given, error) => {
    expect(loginOf(path, [...new URLSearchParams(form)], given)).toThrow(`login-conflict: ${error}`);
  });
});

describe('a read-only query', () => {
  const about = { environment: 'sandbox', login: 'acme', endpoint: '12', clientOrderId: 'o-1' };
  const queryWith = (method: 'RSA-SHA256' | 'HMAC-SHA1', more: object = {}, ofSandbox: object = {}) =>
    readOnlyQuery(createRoutes(configOf({}, ofSandbox)), { ...about, ...more }, method);

  it('for an RSA key is an order status query, and for a control key a balance query', () => {
    const gateway = 'https://sandbox.gateway.test/gw/api';
    expect(queryWith('RSA-SHA256')).toMatchObject({
      destination: { url: new URL(`${gateway}/v4/status/12`) },
      form: [
        ['login', 'acme'],
        ['client_orderid', 'o-1'],
      ],
    });
    expect(queryWith('HMAC-SHA1')).toMatchObject({
      destination: { url: new URL(`${gateway}/v2/get-balance/manager/acme`) },
      form: [],
    });
  });

  it('is never an operation that is not configured as read-only, and absent without endpoint or environment', () => {
    const paying = { 'order-status': { readOnly: false } };
    expect(queryWith('RSA-SHA256', {}, paying)).toBe('no-operation');
    expect(queryWith('RSA-SHA256', { endpoint: undefined })).toBe('no-endpoint');
    expect(queryWith('HMAC-SHA1', { endpoint: undefined })).toHaveProperty('form');
    expect(queryWith('HMAC-SHA1', { environment: 'other' })).toBe('no-operation');
  });

  it('has the first endpoint that is mapped to its login', () => {
    expect(endpointOf(config, about)).toBe('12');
    expect(endpointOf(config, { ...about, login: 'gamma' })).toBeUndefined();
    expect(endpointOf(config, { ...about, environment: 'other' })).toBeUndefined();
  });
});

describe('the path of the status query of a payment', () => {
  /** Of a payment to this path of endpoint 12, whose caller may use these operations. */
  function queryOf(path: string, allowed: readonly string[] = [], operations: object = publishedOperations) {
    const routes = createRoutes(configOf(operations));
    const destination = routes.resolve(`/sandbox/gw/api/${path}/12`);
    return statusPathOf(routes.operations, destination, (name) => allowed.includes(name));
  }
  const [v2, v4] = ['/sandbox/gw/api/v2/status/12', '/sandbox/gw/api/v4/status/12'];
  const strictV2 = { ...publishedOperations['status-v2'], parameters: {} };
  const strict = { ...publishedOperations, 'status-v2': strictV2 };
  const needsMore = { 'order-status': { parameters: { orderid: { required: true } } } };

  it.each<[string, string, readonly string[], string | undefined, object?]>([
    ['signed as it was', 'v2/sale', [], v2],
    ['signed as it was', 'v4/transfer', [], v4],
    ['signed as it was', 'v2/pan-eligibility/send', [], v4],
    ['what its caller may use', 'v2/sale', ['sale-v2', 'order-status'], v4],
    ['what its caller may use', 'v4/transfer', ['transfer', 'status-v2'], v2],
    ['what its caller may use, signed as it was', 'v2/sale', ['order-status', 'status-v2'], v2],
    ['one that needs the order ID of the merchant alone', 'v2/sale', ['status-v2'], v4, strict],
    ['none that needs more', 'v4/transfer', [], undefined, needsMore],
    ['none that is no query', 'v4/transfer', [], undefined, { 'order-status': { readOnly: false } }],
  ])('is %s: %s for %j', (_what, path, allowed, expected, ...[operations]) => {
    expect(queryOf(path, allowed, operations)).toBe(expected);
  });

  // A log line may be made by anyone: what is sent to such a path must be no payment, and go to Countersign.
  it.each([
    ['/sandbox/gw/api/v4/status/group/77', true],
    ['/production/pay/api/v5/status/a%40b.c~d_e-f', true],
    ['/sandbox/gw/api/v4/transfer/status/1234', false],
    ['/sandbox/gw/api/v4/status/..', false],
    ['/sandbox/gw/api/v4/status/../transfer/1234', false],
    ['/sandbox/gw/api/v4/status/%2e%2e%2ftransfer', false],
    ['/sandbox/gw/api/v4/status/1234?a=b', false],
    ['//gateway.example/gw/api/v4/status/1234', false],
    ['https://gateway.example/sandbox/gw/api/v4/status/1234', false],
    ['/sandbox/gw/api/v4/status/', false],
    ['/sandbox/gw/api/v4/status/12\n34', false],
  ])('may be %j: %j', (path, expected) => expect(isStatusPath(path)).toBe(expected));
});
