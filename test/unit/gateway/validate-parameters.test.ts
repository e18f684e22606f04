import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { configSchema, type OperationOverride } from '../../../src/config/schema.ts';
import { ProxyError } from '../../../src/errors.ts';
import { createOperationTable } from '../../../src/gateway/operations.ts';
import { validateParameters } from '../../../src/gateway/validate-parameters.ts';

const config = configSchema.parse({
  environments: { sandbox: { baseUrl: 'https://gateway.test', product: 'gw' } },
  keys: { source: 'directory', directory: 'keys' },
});

function reasonFor(name: string): string {
  const transfer = createOperationTable(config)
    .get('sandbox')
    ?.find((operation) => operation.name === 'transfer');
  if (transfer === undefined) throw new Error('there is no transfer');
  try {
    validateParameters(transfer, [
      ['client_orderid', '1'],
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
  return problemWith({}, name, ...form);
}

/** The same if the configuration overrides the operation. */
function problemWith(
  override: OperationOverride,
  name: string,
  ...form: (readonly [name: string, value: string])[]
): string {
  const overridden = { ...config, operations: { [name]: override } };
  const operation = createOperationTable(overridden)
    .get('sandbox')
    ?.find((one) => one.name === name);
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

describe('an order ID', () => {
  const login = ['login', 'acme'] as const;
  const sent = (text: string) => [login, ...new URLSearchParams(text)] as const;

  it.each(['client_orderid=1', 'client-order-id=1', 'client-order-id=1&client_orderid=1'])(
    'counts in either spelling: %s',
    (text) => {
      expect(problemOf('transfer', ...sent(text))).toBe('accepted');
      expect(problemOf('order-status', ...sent(text))).toBe('accepted');
      expect(problemOf('order-status-group', ...sent(text))).toBe('accepted');
    },
  );

  it('is missing if it is empty', () => {
    expect(problemOf('transfer', ...sent('client-order-id='))).toBe(
      'parameter-invalid: "client_orderid" is required.',
    );
  });

  it.each(['client-orderid=1', 'Client-Order-Id=1', 'client_order_id=1', 'clientOrderId=1'])(
    'is missing in another spelling, which the error says without repeating it: %s',
    (text) => {
      expect(problemOf('transfer', ...sent(text))).toBe(
        'parameter-invalid: "client_orderid" is required. Parameter 2 is spelled differently: send it with exactly this name.',
      );
    },
  );

  it.each(['client_orderid=1&client-order-id=2', 'client-order-id=&client_orderid=1'])(
    'is rejected in both spellings if they are different: %s',
    (text) => {
      const different =
        'parameter-invalid: "client_orderid" and "client-order-id" are different. Send one order ID.';
      for (const name of ['transfer', 'order-status', 'pan-eligibility-send', 'manager-balance']) {
        expect(problemOf(name, ...sent(text))).toBe(different);
      }
    },
  );

  it('has the rules of the configuration in either spelling', () => {
    const short = { parameters: { client_orderid: { maxLength: 3 } } };
    expect(problemWith(short, 'transfer', ...sent('client-order-id=1234'))).toContain(
      '"client-order-id" has more than 3 characters.',
    );
    expect(problemOf('order-status', ...sent('client-order-id=1&client-order-id=1'))).toContain(
      '"client-order-id" appears 2 times.',
    );
    const other = { parameters: { 'client-order-id': { required: true } } };
    expect(problemWith(other, 'transfer', ...sent('client_orderid=1'))).toBe('accepted');
  });
});

describe('a transfer', () => {
  const id = ['client_orderid', '1'] as const;
  const repeated = [id, ['amount', '1'], ['amount', '1000']] as const;
  const missing = 'parameter-invalid: "client_orderid" is required.';
  const twice =
    'parameter-invalid: A parameter name appears more than once, and the gateway may take either value. Send each parameter once.';

  it('needs an order ID, since its outcome could not be queried without one', () => {
    expect(problemOf('transfer', ['amount', '1'])).toBe(missing);
    expect(problemOf('transfer', ['client_orderid', ''], ['amount', '1'])).toBe(missing);
    expect(problemOf('transfer', id, ['amount', '1'])).toBe('accepted');
  });

  it('must not repeat a parameter name', () => {
    expect(problemOf('transfer', ...repeated)).toBe(twice);
  });

  it('may do both if the configuration says so, each on its own', () => {
    const anonymous = { parameters: { client_orderid: { required: false } } };
    expect(problemWith(anonymous, 'transfer', ['amount', '1'])).toBe('accepted');
    expect(problemWith(anonymous, 'transfer', ...repeated)).toBe(twice);
    const repeating = { allowRepeatedParameters: true };
    expect(problemWith(repeating, 'transfer', ...repeated)).toBe('accepted');
    expect(problemWith(repeating, 'transfer', ['amount', '1'])).toBe(missing);
  });

  it('still needs its order ID if the configuration has rules for other parameters, or another one for the ID', () => {
    expect(problemWith({ parameters: { amount: { required: true } } }, 'transfer', ['amount', '1'])).toBe(
      missing,
    );
    const short = { parameters: { client_orderid: { maxLength: 3 } } };
    expect(problemWith(short, 'transfer', ['amount', '1'])).toBe(missing);
    expect(problemWith(short, 'transfer', ['client_orderid', '1234'])).toMatch(/more than 3 characters/);
  });
});

it('any other operation may repeat a name that no rule has, unless the configuration forbids it', () => {
  const form = [
    ['a', '1'],
    ['a', '1'],
  ] as const;
  expect(problemOf('pan-eligibility-send', ...form)).toBe('accepted');
  expect(problemWith({ allowRepeatedParameters: false }, 'pan-eligibility-send', ...form)).toMatch(
    /more than once/,
  );
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
    '\u{1d428}\u{1d41a}\u{1d42e}\u{1d42d}\u{1d421}_nonce',
    '\uff4f\uff41\uff55\uff54\uff48_nonce',
  ])('is rejected: %j', (name) => {
    expect(reasonFor(name)).toBe('reserved-parameter');
  });

  it.each([
    ['oauth_token', 'Parameter 2 ("oauth_token") is one'],
    ['OAuth_body_hash', 'Parameter 2 ("OAuth_body_hash") is one'],
    ['oauth_4111111111111111', 'Parameter 2 is one'],
    ['oauth\u200b_nonce', 'Parameter 2 is one'],
    ['oauth Mark Cardholder', 'Parameter 2 is one'],
  ])('is named if its name is a word: %j', (name, problem) => {
    expect(problemOf('transfer', ['client_orderid', '1'], [name, 'x'])).toContain(problem);
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

  it('is compared in linear time: combining marks are not normalized as a whole', () => {
    const name = '\u0301\u0323\u0345\u0327'.repeat(8_192);
    const began = process.cpuUsage();
    expect(reasonFor(name)).toBe('accepted');
    expect(process.cpuUsage(began).user).toBeLessThan(200_000);
  });

  it('is accepted with any visible character before "oauth_"', () => {
    const visible = fc.string({ minLength: 1 }).filter((text) => /^[!-~]/.test(text));
    fc.assert(fc.property(visible, (text) => reasonFor(`x${text}oauth_nonce`) === 'accepted'));
  });
});
