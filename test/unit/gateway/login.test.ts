import { describe, expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { resolveLogin } from '../../../src/gateway/login.ts';
import { createRoutes } from '../../../src/gateway/router.ts';

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
