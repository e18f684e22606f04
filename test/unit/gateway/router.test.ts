import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { type Config, configSchema } from '../../../src/config/schema.ts';
import { ProxyError } from '../../../src/errors.ts';
import { createRoutes } from '../../../src/gateway/router.ts';
import { identifierPattern } from '../../../src/identifiers.ts';

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
