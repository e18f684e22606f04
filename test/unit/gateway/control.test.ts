import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { configSchema, type OperationOverride } from '../../../src/config/schema.ts';
import { controlText, formWithLogin, minorUnits } from '../../../src/gateway/control.ts';
import { createRoutes } from '../../../src/gateway/router.ts';
import { validateParameters } from '../../../src/gateway/validate-parameters.ts';
import { methods } from '../../../src/oauth1/methods.ts';
import { Secret } from '../../../src/secret.ts';

type Form = readonly (readonly [name: string, value: string])[];

const amount = { amount: { minorUnitsOf: 'currency' } };
const common = { signature: 'SHA1-control', loginFrom: 'header' } as const;
const sale: OperationOverride = {
  ...common,
  path: '/api/v2/sale/{endpoint}',
  control: ['{endpoint}', 'client_orderid', 'amount', 'email'],
  parameters: amount,
};
const refund: OperationOverride = {
  ...common,
  path: '/api/v2/return/{endpoint}',
  control: ['login', 'client_orderid', 'orderid', 'amount', 'currency'],
  parameters: { amount: { minorUnitsOf: 'currency', required: false }, currency: { required: false } },
};
const { resolve } = createRoutes(
  configSchema.parse({
    environments: { sandbox: { baseUrl: 'https://gateway.test', product: 'gw' } },
    keys: { source: 'directory', directory: 'keys' },
    operations: { sale, return: refund },
  }),
);
const subject = (operation: string, form: Form) => ({
  destination: resolve(`/sandbox/gw/api/v2/${operation}/1111`),
  login: 'acme',
  form,
});
const textOf = (operation: string, form: Form): string => controlText(subject(operation, form));
const problemOf = (operation: string, form: Form): string | undefined => {
  try {
    validateParameters(subject(operation, form).destination.operation, form);
  } catch (error) {
    return String(error);
  }
  return undefined;
};

// docs/gateway-interface.md section 5.5 has the source.
const publishedKey = 'B17F59B4-A7DC-41B4-8FF9-37D986B43D20';
const publishedForm: Form = [
  ['client_orderid', '902B4FF5'],
  ['amount', '10.42'],
  ['currency', 'USD'],
  ['email', 'john.smith@gmail.com'],
];

describe('a control', () => {
  it('of the published example is made of the published text', () => {
    expect(`${textOf('sale', publishedForm)}${publishedKey}`).toBe(
      '1111902B4FF51042john.smith@gmail.comB17F59B4-A7DC-41B4-8FF9-37D986B43D20',
    );
  });

  it('is the SHA-1 of the text and the control key, in hex', () => {
    const key = { kind: 'control_key', secret: new Secret(publishedKey) } as const;
    const control = methods['SHA1-control'].sign(textOf('sale', publishedForm), key, '');
    // printf %s 1111902B4FF51042john.smith@gmail.comB17F59B4-A7DC-41B4-8FF9-37D986B43D20 | openssl dgst -sha1
    expect(control).toBe('c6bdd88a78834ef4b863b088827a459f039e8257');
    expect(methods['SHA1-control'].sign('é', key, '')).toBe(
      createHash('sha1').update(`é${publishedKey}`).digest('hex'),
    );
  });

  it('has the login of the request, which the form gets too', () => {
    const form: Form = [
      ['client-order-id', '902B4FF5'],
      ['orderid', '17'],
      ['amount', '0.94'],
      ['currency', 'EUR'],
    ];
    expect(textOf('return', form)).toBe('acme902B4FF51794EUR');
    expect(formWithLogin(subject('return', form))).toEqual([['login', 'acme'], ...form]);
    const named: Form = [...form, ['login', 'acme']];
    expect(formWithLogin(subject('return', named))).toEqual(named);
    expect(formWithLogin(subject('sale', publishedForm))).toEqual(publishedForm);
  });

  it('leaves out what may be absent, such as the amount when all is returned', () => {
    const form: Form = [
      ['client_orderid', '902B4FF5'],
      ['orderid', '17'],
    ];
    expect(problemOf('return', form)).toBeUndefined();
    expect(textOf('return', form)).toBe('acme902B4FF517');
  });
});

describe('a form is rejected', () => {
  const without = (name: string): Form => publishedForm.filter(([one]) => one !== name);

  it.each(['client_orderid', 'amount', 'email'])('without %s, which the control covers', (name) => {
    expect(problemOf('sale', without(name))).toContain(`parameter-invalid: "${name}" is required.`);
  });

  it('with a currency whose amount is missing, or misspelled: the gateway may return all of it', () => {
    const part: Form = [
      ['client_orderid', '902B4FF5'],
      ['orderid', '17'],
      ['currency', 'EUR'],
      ['ammount', '5.00'],
    ];
    expect(problemOf('return', part)).toContain('"currency" is there without "amount"');
  });

  it('if what the control covers appears twice', () => {
    expect(problemOf('sale', [...publishedForm, ['email', 'b@example.test']])).toContain('appears 2 times');
    expect(
      problemOf('return', [
        ['login', 'acme'],
        ['login', 'acme'],
      ]),
    ).toContain('"login" appears 2 times');
  });

  it.each(['control', 'Control', ' control', 'control ', 'con\u200btrol', 'control[]', 'ｃontrol'])(
    'with a parameter that is a control for some: %j',
    (name) => {
      expect(problemOf('sale', [...publishedForm, [name, 'x']])).toContain('reserved-parameter: Parameter 5');
    },
  );

  it('but not for a name that only begins like it', () => {
    expect(problemOf('sale', [...publishedForm, ['control_group', 'x'], ['controls', 'y']])).toBeUndefined();
  });

  it.each([
    ['10.425', 'USD'],
    ['10.5', 'JPY'],
    ['1.2345', 'KWD'],
    ['10,42', 'USD'],
    ['-1', 'USD'],
    ['1e3', 'USD'],
    ['.5', 'USD'],
    ['5.', 'USD'],
    [' 5', 'USD'],
    ['٥', 'USD'],
    ['5', 'usd'],
    ['5', ''],
  ])('with the amount %j of %j', (value, currency) => {
    const form: Form = [...without('amount').filter(([one]) => one !== 'currency'), ['amount', value]];
    const all: Form = [...form, ['currency', currency]];
    expect(problemOf('sale', all)).toContain('"amount" and "currency" are no amount.');
    expect(problemOf('sale', form)).toContain('"amount" and "currency" are no amount.');
  });
});

// Decimals of ISO 4217.
it.each([
  ['10.42', 'USD', '1042'],
  ['0.94', 'EUR', '94'],
  ['10', 'EUR', '1000'],
  ['10.4', 'EUR', '1040'],
  ['10.400', 'EUR', '1040'],
  ['10.42', 'HUF', '1042'],
  ['007.10', 'EUR', '710'],
  ['0.00', 'EUR', '0'],
  ['1500', 'JPY', '1500'],
  ['1500.00', 'JPY', '1500'],
  ['0', 'KRW', '0'],
  ['1.234', 'KWD', '1234'],
  ['1.2', 'BHD', '1200'],
  ['12', 'TND', '12000'],
  ['1.2345', 'CLF', '12345'],
  ['99999999999999999999.99', 'RSD', '9999999999999999999999'],
])('%s %s is %s minor units', (value, currency, expected) => {
  expect(minorUnits(value, currency)).toBe(expected);
});
