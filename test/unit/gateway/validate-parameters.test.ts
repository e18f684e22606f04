import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { configSchema, type OperationOverride } from '../../../src/config/schema.ts';
import { ProxyError } from '../../../src/errors.ts';
import { controlText, formWithLogin, minorUnits } from '../../../src/gateway/control.ts';
import {
  builtInOperations,
  createOperationTable,
  mergeOperations,
  type Operation,
} from '../../../src/gateway/operations.ts';
import { isShownInFull, shownOrderId } from '../../../src/gateway/order-id.ts';
import { createRoutes } from '../../../src/gateway/router.ts';
import { validateParameters } from '../../../src/gateway/validate-parameters.ts';
import { methods } from '../../../src/oauth1/methods.ts';
import { Secret } from '../../../src/secret.ts';

type Form = readonly (readonly [name: string, value: string])[];

const configOf = (operations: Readonly<Record<string, OperationOverride>> = {}) =>
  configSchema.parse({
    environments: { sandbox: { baseUrl: 'https://gateway.test', product: 'gw' } },
    keys: { source: 'directory', directory: 'keys' },
    operations,
  });
const formOf = (form: string | Form): Form =>
  typeof form === 'string' ? [...new URLSearchParams(form)] : form;

function problemIn(operation: Operation | undefined, form: string | Form): string {
  if (operation === undefined) throw new Error('there is no such operation');
  try {
    validateParameters(operation, formOf(form));
  } catch (error) {
    if (error instanceof ProxyError) return `${error.reason}: ${error.detail}`;
    throw error;
  }
  return 'accepted';
}

/** The error for a form of this operation, which the configuration may override. */
function problemOf(name: string, form: string | Form, override?: OperationOverride): string {
  const table = createOperationTable(configOf(override && { [name]: override }));
  const operations = table.get('sandbox');
  return problemIn(
    operations?.find((one) => one.name === name),
    form,
  );
}

const missing = 'parameter-invalid: "client_orderid" is required.';
const different =
  'parameter-invalid: "client_orderid" and "client-order-id" are different. Send one order ID.';
const misspelled = `${missing} Parameter 2 is spelled differently: send it with exactly this name.`;
const repeated =
  'parameter-invalid: A parameter name appears more than once, and the gateway may take either value. Send each parameter once.';
const tooLong = '"balance-name" has more than 128 characters.';
const short = { parameters: { client_orderid: { maxLength: 3 } } };
const optional = { parameters: { client_orderid: { required: false } } };
const repeating = { allowRepeatedParameters: true };

it.each<[operation: string, form: string, expected: string | RegExp, override?: OperationOverride]>([
  // An order ID is required, not empty, and there once, in one of its spellings.
  ['order-status', 'login=acme', missing],
  ['order-status', 'login=acme&client_orderid=', missing],
  ['transfer', 'login=acme&client-order-id=', missing],
  ['transfer', 'amount=1', missing],
  ['order-status', 'client_orderid=1&client_orderid=1&login=a', /"client_orderid" appears 2 times\. Send it/],
  ['order-status', 'login=acme&client-order-id=1&client-order-id=1', /"client-order-id" appears 2 times\./],
  ...['client_orderid=1', 'client-order-id=1', 'client-order-id=1&client_orderid=1'].flatMap((id) =>
    ['transfer', 'order-status', 'order-status-group'].map(
      (name) => [name, `login=acme&${id}`, 'accepted'] as [string, string, string],
    ),
  ),
  ...['client-orderid', 'Client-Order-Id', 'client_order_id', 'clientOrderId'].map(
    (name): [string, string, string] => ['transfer', `login=acme&${name}=1`, misspelled],
  ),
  ...['transfer', 'order-status', 'pan-eligibility-send', 'manager-balance'].map(
    (name): [string, string, string] => [name, 'client_orderid=1&client-order-id=2', different],
  ),
  ['transfer', 'client-order-id=&client_orderid=1', different],
  // It has the rules of the configuration in either spelling.
  ['transfer', 'client-order-id=1234', /"client-order-id" has more than 3 characters\./, short],
  ['transfer', 'client_orderid=1234', /"client_orderid" has more than 3 characters\./, short],
  ['transfer', 'amount=1', missing, short],
  ['transfer', 'amount=1', missing, { parameters: { amount: { required: true } } }],
  ['transfer', 'client_orderid=1', 'accepted', { parameters: { 'client-order-id': { required: true } } }],
  // Lengths are counted in characters.
  ['manager-balance', `balance-name=${'x'.repeat(128)}`, 'accepted'],
  ['manager-balance', `balance-name=${'%F0%9F%98%80'.repeat(128)}`, 'accepted'],
  ['manager-balance', `balance-name=${'x'.repeat(129)}`, `parameter-invalid: ${tooLong}`],
  // A transfer may neither lack its order ID nor repeat a name, unless the configuration says so, each on its own.
  ['transfer', 'client_orderid=1&amount=1&amount=1000', repeated],
  ['transfer', 'amount=1', 'accepted', optional],
  ['transfer', 'client_orderid=1&amount=1&amount=1000', repeated, optional],
  ['transfer', 'client_orderid=1&amount=1&amount=1000', 'accepted', repeating],
  ['transfer', 'amount=1', missing, repeating],
  ['pan-eligibility-send', 'a=1&a=1', 'accepted'],
  ['pan-eligibility-send', 'a=1&a=1', /more than once/, { allowRepeatedParameters: false }],
])('%s with %s: %s', (name, form, expected, ...[override]) => {
  const problem = problemOf(name, form, override);
  if (typeof expected === 'string') expect(problem).toBe(expected);
  else expect(problem).toMatch(expected);
});

describe('a parameter that could be treated as an OAuth parameter', () => {
  const problemWith = (name: string): string =>
    problemOf('transfer', [
      ['client_orderid', '1'],
      [name, 'x'],
    ]);
  const isReserved = (name: string): boolean => problemWith(name).startsWith('reserved-parameter: ');
  const isAccepted = (name: string): boolean => problemWith(name) === 'accepted';

  it.each(['oauth_', 'o\0auth_nonce', '\u{1d428}\u{1d41a}\u{1d42e}\u{1d42d}\u{1d421}_nonce'])(
    'is rejected: %j',
    (name) => expect(isReserved(name)).toBe(true),
  );

  it.each([
    ['oauth_token', 'Parameter 2 ("oauth_token") is one'],
    ['OAuth_body_hash', 'Parameter 2 ("OAuth_body_hash") is one'],
    ['oauth\u200b_nonce', 'Parameter 2 is one'],
    ['oauth Mark Cardholder', 'Parameter 2 is one'],
  ])('is named if its name is a word: %j', (name, problem) => {
    expect(problemWith(name)).toContain(problem);
  });

  it('is rejected in any disguise', () => {
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
        const all = [...before, ...letters, underscore, ...Array.from(rest)];
        for (const [at, character] of inserted) all.splice(at % (all.length + 1), 0, character);
        return all.join('');
      });
    fc.assert(fc.property(disguised, isReserved));
  });

  it.each(['oauth', 'oauthx', 'oauth-nonce', 'oauthnonce', 'my_oauth_nonce', 'o.auth_nonce', '_oauth_', ''])(
    'is none: %j',
    (name) => expect(isAccepted(name)).toBe(true),
  );

  it('is none with any visible character before it', () => {
    const visible = fc.string({ minLength: 1 }).filter((text) => /^[!-~]/.test(text));
    fc.assert(fc.property(visible, (text) => isAccepted(`x${text}oauth_nonce`)));
  });

  it('is compared in linear time: combining marks are not normalized as a whole', () => {
    const name = '\u0301\u0323\u0345\u0327'.repeat(8_192);
    const began = process.cpuUsage();
    expect(isAccepted(name)).toBe(true);
    expect(process.cpuUsage(began).user).toBeLessThan(200_000);
  });
});

const common = { signature: 'SHA1-control', loginFrom: 'header' } as const;
const { resolve } = createRoutes(
  configOf({
    sale: {
      ...common,
      path: '/api/v2/sale/{endpoint}',
      control: ['{endpoint}', 'client_orderid', 'amount', 'email'],
      parameters: { amount: { minorUnitsOf: 'currency' } },
    },
    group: { ...common, path: '/api/v2/group/{endpointGroup}', control: ['{endpointGroup}', 'email'] },
    return: {
      ...common,
      path: '/api/v2/return/{endpoint}',
      control: ['login', 'client_orderid', 'orderid', 'amount', 'currency'],
      parameters: { amount: { minorUnitsOf: 'currency', required: false }, currency: { required: false } },
    },
  }),
);
const subject = (operation: string, form: string | Form) => ({
  destination: resolve(`/sandbox/gw/api/v2/${operation}/1111`),
  login: 'acme',
  form: formOf(form),
});
const textOf = (operation: string, form: string): string => controlText(subject(operation, form));
const controlProblem = (operation: string, form: string | Form): string =>
  problemIn(subject(operation, form).destination.operation, form);

// docs/gateway-interface.md section 5.5 has the source.
const publishedKey = 'B17F59B4-A7DC-41B4-8FF9-37D986B43D20';
const published = 'client_orderid=902B4FF5&amount=10.42&currency=USD&email=john.smith@gmail.com';

describe('a control', () => {
  it.each([
    ['sale', published, '1111902B4FF51042john.smith@gmail.com'],
    ['return', 'client-order-id=902B4FF5&orderid=17&amount=0.94&currency=EUR', 'acme902B4FF51794EUR'],
    ['group', 'email=a', '1111a'],
    // What may be absent, such as the amount when all is returned.
    ['return', 'client_orderid=902B4FF5&orderid=17', 'acme902B4FF517'],
  ])('of a %s with %s covers %s', (operation, form, text) => {
    expect(controlProblem(operation, form)).toBe('accepted');
    expect(textOf(operation, form)).toBe(text);
  });

  it('is the SHA-1 of the text and the control key, in hex', () => {
    const key = { kind: 'control_key', secret: new Secret(publishedKey) } as const;
    const control = methods['SHA1-control'].sign(textOf('sale', published), key, '');
    // printf %s 1111902B4FF51042john.smith@gmail.comB17F59B4-A7DC-41B4-8FF9-37D986B43D20 | openssl dgst -sha1
    expect(control).toBe('c6bdd88a78834ef4b863b088827a459f039e8257');
    expect(methods['SHA1-control'].sign('é', key, '')).toBe(
      createHash('sha1').update(`é${publishedKey}`).digest('hex'),
    );
  });

  it('that covers the login is of a form that has it', () => {
    const [form, named] = [formOf('client_orderid=1&orderid=17'), formOf('orderid=17&login=acme')];
    expect(formWithLogin(subject('return', form))).toEqual([['login', 'acme'], ...form]);
    expect(formWithLogin(subject('return', named))).toEqual(named);
    expect(formWithLogin(subject('sale', published))).toEqual(formOf(published));
  });

  const without = (name: string): Form => formOf(published).filter(([one]) => one !== name);
  it.each<[string, string, string | Form, string]>([
    ...['client_orderid', 'amount', 'email'].map((name): [string, string, Form, string] => [
      `without ${name}, which it covers`,
      'sale',
      without(name),
      `parameter-invalid: "${name}" is required.`,
    ]),
    [
      'with a currency whose amount is misspelled: the gateway may return all of it',
      'return',
      'client_orderid=1&orderid=17&currency=EUR&ammount=5.00',
      '"currency" is there without "amount"',
    ],
    ['with two of what it covers', 'sale', `${published}&email=b@example.test`, 'appears 2 times'],
    ['with two logins', 'return', 'login=acme&login=acme', '"login" appears 2 times'],
    ...['control', 'Control', ' control', 'control ', 'con\u200btrol', 'control[]', 'ｃontrol'].map(
      (name): [string, string, Form, string] => [
        `with a parameter that is a control for some: ${name}`,
        'sale',
        [...formOf(published), [name, 'x']],
        'reserved-parameter: Parameter 5',
      ],
    ),
  ])('is not made of a form %s', (_what, operation, form, problem) => {
    expect(controlProblem(operation, form)).toContain(problem);
  });

  it('is made of one with a name that only begins like it', () => {
    expect(controlProblem('sale', `${published}&control_group=x&controls=y`)).toBe('accepted');
  });

  it.each([
    ['10.425', 'USD'],
    ['10.5', 'JPY'],
    ['1.2345', 'KWD'],
    ['-1', 'USD'],
    ['.5', 'USD'],
    [' 5', 'USD'],
    ['٥', 'USD'],
    ['5', 'usd'],
    ['5', ''],
  ])('is not made of the amount %j of %j, nor of one without a currency', (value, currency) => {
    const form: Form = [...without('amount').filter(([one]) => one !== 'currency'), ['amount', value]];
    for (const one of [form, [...form, ['currency', currency] as const]])
      expect(controlProblem('sale', one)).toContain('"amount" and "currency" are no amount.');
  });
});

// Decimals of ISO 4217.
it.each([
  ['10.42', 'USD', '1042'],
  ['10', 'EUR', '1000'],
  ['10.4', 'EUR', '1040'],
  ['10.400', 'EUR', '1040'],
  ['007.10', 'EUR', '710'],
  ['0.00', 'EUR', '0'],
  ['1500', 'JPY', '1500'],
  ['1500.00', 'JPY', '1500'],
  ['1.234', 'KWD', '1234'],
  ['1.2', 'BHD', '1200'],
  ['1.2345', 'CLF', '12345'],
  ['99999999999999999999.99', 'RSD', '9999999999999999999999'],
])('%s %s is %s minor units', (value, currency, expected) => {
  expect(minorUnits(value, currency)).toBe(expected);
});

it('of the built-in operations only read-only ones are retried', () => {
  const all = Object.entries(builtInOperations);
  expect(all.map(([name, { readOnly, retryOn403 }]) => [name, readOnly, retryOn403])).toEqual([
    ['manager-balance', true, true],
    ['order-status', true, true],
    ['order-status-group', true, true],
    ['pan-eligibility-send', false, false],
    ['transfer', false, false],
    ['verify-callback', true, false],
  ]);
});

it('a configured operation is a payment that may repeat parameters, unless it says otherwise', () => {
  const refund = { path: '/refund', signature: 'HMAC-SHA1', loginFrom: 'header' } as const;
  const merged = (...more: object[]) =>
    mergeOperations([{ refund }, ...more.map((one) => ({ refund: one }))]).find(
      ({ name }) => name === 'refund',
    );
  const payment = { readOnly: false, retryOn403: false, once: false, allowRepeatedParameters: true };
  const whole = { ...payment, ...refund, parameters: {}, name: 'refund', routes: [['refund']] };
  expect(merged()).toEqual(whole);
  expect(merged({ allowRepeatedParameters: false })).toEqual({ ...whole, allowRepeatedParameters: false });
});

it.each([
  ['order-1', true],
  ['a'.repeat(60_000), false],
  ['a\nb', false],
  ['4111111111111111', false],
  ['', false],
])('whether what is shown of the order ID %.20j is all of it: %j', (orderId, isAll) => {
  expect(isShownInFull(shownOrderId({}, [['client_orderid', orderId]]) ?? '')).toBe(isAll);
});
