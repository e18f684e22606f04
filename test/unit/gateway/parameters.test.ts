import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { configSchema } from '../../../src/config/schema.ts';
import { ProxyError } from '../../../src/errors.ts';
import { resolveOperations } from '../../../src/gateway/operations.ts';
import { validateParameters } from '../../../src/gateway/parameters.ts';

const config = configSchema.parse({
  environments: { sandbox: { baseUrl: 'https://gateway.test', product: 'gw' } },
  keys: { source: 'directory', directory: 'keys' },
});

function reasonFor(name: string): string {
  const transfer = resolveOperations(config, 'sandbox').find((operation) => operation.name === 'transfer');
  if (transfer === undefined) throw new Error('there is no transfer');
  try {
    validateParameters(transfer, [
      ['amount', '1'],
      [name, 'x'],
    ]);
  } catch (error) {
    if (error instanceof ProxyError) return error.reason;
    throw error;
  }
  return 'accepted';
}

/** Invisible characters, which a lenient parser may drop. */
const invisible = Array.from(
  '\0\x01\t\n\r\x1b\x7f\x85\u00ad\u034f\u061c\u200b\u200d\u200e\u2060\u2066\ufe0f\ufeff',
);
const blanks = Array.from(' \t\n\v\f\r\u00a0\u2003\u3000\ufeff');

const disguised = fc
  .tuple(
    fc.array(fc.constantFrom(...blanks), { maxLength: 3 }),
    fc.tuple(...Array.from('oauth').map((letter) => fc.constantFrom(letter, letter.toUpperCase()))),
    fc.constantFrom('_', '.', '[', ' ', '\uff3f'),
    fc.constantFrom('', 'nonce', 'signature', 'body_hash', '\u00e9', '_', '.'),
    fc.array(fc.tuple(fc.nat(40), fc.constantFrom(...invisible)), { maxLength: 4 }),
  )
  .map(([before, letters, underscore, rest, inserted]) => {
    const characters = [...before, ...letters, underscore, ...Array.from(rest)];
    for (const [at, character] of inserted) characters.splice(at % (characters.length + 1), 0, character);
    return characters.join('');
  });

/** The error for a form with these parameters. */
function problemOf(name: string, ...form: (readonly [name: string, value: string])[]): string {
  const operation = resolveOperations(config, 'sandbox').find((one) => one.name === name);
  if (operation === undefined) throw new Error(`there is no ${name}`);
  try {
    validateParameters(operation, form);
  } catch (error) {
    if (error instanceof ProxyError) return `${error.reason}: ${error.detail}`;
    throw error;
  }
  return 'accepted';
}

describe('a checked parameter', () => {
  const login = ['login', 'acme'] as const;

  it('is required and must not be empty', () => {
    const required = 'parameter-invalid: "client_orderid" is required.';
    expect(problemOf('order-status', login)).toBe(required);
    expect(problemOf('order-status', login, ['client_orderid', ''])).toBe(required);
    expect(problemOf('order-status', login, ['client_orderid', '1'])).toBe('accepted');
  });

  it('must appear only once', () => {
    const twice = [login, ['client_orderid', '1'], ['client_orderid', '1']] as const;
    expect(problemOf('order-status', ...twice)).toBe(
      'parameter-invalid: "client_orderid" appears 2 times. Send it once.',
    );
  });

  it('must not exceed its maximum length in characters', () => {
    const balance = (value: string) => problemOf('manager-balance', ['balance-name', value]);
    expect(balance('x'.repeat(128))).toBe('accepted');
    expect(balance('\u{1f600}'.repeat(128))).toBe('accepted');
    expect(balance('x'.repeat(129))).toBe('parameter-invalid: "balance-name" has more than 128 characters.');
  });
});

describe('a parameter that could be treated as an OAuth parameter', () => {
  it.each([
    'oauth_nonce',
    'oauth_',
    'OAuth_nonce',
    ' oauth_nonce',
    '\0oauth_nonce',
    'o\0auth_nonce',
    'oauth.nonce',
    'oauth nonce',
    'oauth[nonce',
    '\ufeffoauth_nonce',
    'oauth\u200b_nonce',
    '\uff4f\uff41\uff55\uff54\uff48_nonce',
  ])('is rejected: %j', (name) => {
    expect(reasonFor(name)).toBe('reserved-parameter');
  });

  it('is rejected in any disguise', () => {
    fc.assert(fc.property(disguised, (name) => reasonFor(name) === 'reserved-parameter'));
  });
});

describe('a parameter that could not', () => {
  it.each(['oauth', 'oauthx', 'oauth-nonce', 'oauthnonce', 'my_oauth_nonce', 'o.auth_nonce', '_oauth_', ''])(
    'is accepted: %j',
    (name) => {
      expect(reasonFor(name)).toBe('accepted');
    },
  );

  it('is accepted with any visible character before "oauth_"', () => {
    const visible = fc.string({ minLength: 1 }).filter((text) => /^[!-~]/.test(text));
    fc.assert(fc.property(visible, (text) => reasonFor(`x${text}oauth_nonce`) === 'accepted'));
  });
});
