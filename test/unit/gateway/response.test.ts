import type { IncomingHttpHeaders } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import type { Operation } from '../../../src/gateway/operations.ts';
import { orderMismatchOf } from '../../../src/gateway/order-mismatch.ts';
import { adviceOf, statusRowOf } from '../../../src/gateway/payment-status.ts';
import {
  formIn,
  parseResponse,
  readable,
  responseAsJson,
  resultOf,
  skewOf,
  testimonyOf,
} from '../../../src/gateway/response.ts';

const html = 'text/html;charset=utf-8';
const parse = (text: string, type: string | undefined = html) => parseResponse(type, Buffer.from(text));

describe('a form-encoded response', () => {
  // docs/gateway-interface.md section 2.2.
  it.each([
    [
      'without the line feed after each value',
      'type=status-response\n&status=approved\n&name=a+b%2B%0A\n',
      'type=status-response|status=approved|name=a b+\n',
    ],
    [
      'in its order, with repeated names and empty values, without empty parts',
      'b=1&a=\n&&b=2\n&flag&\n',
      'b=1|a=|b=2|flag=',
    ],
    ['split at the first equals sign of a field', 'a=b=c', 'a=b=c'],
  ])('is parsed %s', (_what, text, fields) => {
    const parsed = parse(text) ?? [];
    expect(parsed.map(([name, value]) => `${name}=${value}`).join('|')).toBe(fields);
    expect(parsed[0]?.[0]).toMatch(/^\w+$/);
  });

  it.each([
    ['text/html', true],
    ['TEXT/HTML; charset=utf-8', true],
    ['text/plain', true],
    ['application/x-www-form-urlencoded', true],
    ['application/json', false],
    [undefined, false],
  ])('is looked for in %s: %j', (type, isForm) => {
    expect(parseResponse(type, Buffer.from('a=b'))).toEqual(isForm ? [['a', 'b']] : undefined);
  });

  it.each(['', '\n', '<p>a=b</p>', '[{"a":"="}]', 'a b=c', 'a=%', 'a=%ff', 'a=b&%zz=c', '\xff'])(
    'is not seen in %j',
    (text) => {
      expect(parseResponse(html, Buffer.from(text === '\xff' ? 'a=\xff' : text, 'latin1'))).toBeUndefined();
    },
  );
});

describe('a form-encoded response that is too large', () => {
  const largest = `a=${'b'.repeat(readable.bytes - 2)}`;
  const most = 'a=1&'.repeat(readable.fields - 1);

  it('is parsed up to the limits of bytes and fields, and not beyond', () => {
    expect(readable).toEqual({ bytes: 262_144, fields: 1_000 });
    expect(parse(largest)).toHaveLength(1);
    expect(parse(`${largest}b`)).toBeUndefined();
    expect(parse(`${most}a=1`)).toHaveLength(readable.fields);
    expect(parse(`${most}a=1&a=1`)).toBeUndefined();
  });
});

describe('a response as JSON', () => {
  it('has arrays only for repeated names, and treats those of Object.prototype like any other', () => {
    const fields = ['a=1', 'b=2', 'a=3', '__proto__=x', 'toString=y'].map((field) => field.split('='));
    expect(responseAsJson(fields.map(([name = '', value = '']) => [name, value]))).toBe(
      '{"a":["1","3"],"b":"2","__proto__":"x","toString":"y"}',
    );
  });
});

describe('the fields of a response in the log and the metrics', () => {
  const uuid = '00000000-0000-0000-0000-0000000624E9';

  it.each([
    ['status', 'chain_declined', { gatewayResult: 'chain_declined' }],
    ['status', '4000056655665556', { gatewayResult: 'other' }],
    ['order-stage', 'approved', {}],
    ['error-code', '124', { gatewayErrorCode: '124' }],
    ['error-code', '1240', { gatewayErrorCode: 'other' }],
    ['error-code', '', {}],
    ['error-message', '124', {}],
    ['serial-number', uuid, { serialNumber: uuid }],
    // Only what is shaped like a UUID is one.
    ...['4000056655665556', `${uuid}\n`, `${uuid}0`, 'x"}\n{"level":"error', ''].map(
      (text) => ['serial-number', text, {}] as const,
    ),
  ])('for %s=%j are %j', (name, value, result) => {
    expect(resultOf([[name, value]])).toEqual(result);
  });

  it('are the first of each name', () => {
    const fields = 'status=declined&error-code=124&status=approved&error-code=1';
    expect(resultOf([...new URLSearchParams(`${fields}&serial-number=${uuid}&serial-number=`)])).toEqual({
      serialNumber: uuid,
      gatewayResult: 'declined',
      gatewayErrorCode: '124',
    });
    expect(resultOf([])).toEqual({});
  });
});

describe('what a response says of the key that signed its request', () => {
  const says = (
    status: number,
    body: string,
    headers: IncomingHttpHeaders = { 'content-type': html },
    signature: Operation['signature'] = 'RSA-SHA256',
  ) => {
    const response = { status, headers, body: Buffer.from(body) };
    return testimonyOf({ ...response, form: formIn(response) }, { signature });
  };
  const form = 'type=async-response\n&serial-number=00000000-0000-0000-0000-0000000017d3\n';
  const inJson = (type: string): string => `{"type":"${type}","serial-number":"17d3"}`;
  const page = '<html><body>Welcome</body></html>';

  it.each<readonly [string, number, string, string, string?]>([
    ['accepted', 202, 'a form with its type', form],
    ['accepted', 200, 'a JSON object with its type', inJson('status-response'), 'application/json'],
    ['accepted', 200, 'JSON of a vendor', inJson('status-response'), 'application/vnd.pay+json'],
    ['accepted', 200, 'a list of balances', '[{"name":"acme","amount":"1.00"}]', 'application/json'],
    ['accepted', 200, 'an empty list of balances', '[]', 'application/json'],
    ['error', 200, 'an error', 'type=error\n&error-code=124\n'],
    ['error', 200, 'a validation error in JSON', inJson('validation-error'), 'application/json'],
    ...[400, 404, 409, 422].map((status) => ['refused', status, 'an error', 'type=error\n'] as const),
    ['rejected', 401, 'nothing', ''],
    ['rejected', 403, 'a form', form],
    ['silent', 200, 'a page', page],
    ['silent', 200, 'the health of a load balancer', '{"status":"ok"}', 'application/json'],
    ['silent', 200, 'a form without a type', 'status=ok\n'],
    ['silent', 200, 'a list of something else', '[{"name":"acme"}]', 'application/json'],
    ['silent', 404, 'a problem document', '{"type":"about:blank"}', 'application/problem+json'],
    ['silent', 200, 'JSON with an odd type', '{"type":1}', 'application/json'],
    ['silent', 200, 'JSON of another content type', inJson('status-response')],
    ['silent', 200, 'a form that is too large', `${form}&a=${'b'.repeat(readable.bytes)}`],
    ['silent', 200, 'JSON that is too large', inJson('b'.repeat(readable.bytes)), 'application/json'],
    ...[300, 302, 402, 429, 500].map((status) => ['silent', status, 'a form', form] as const),
    ['silent', 400, 'a page', page],
  ])('%s: %i with %s', (testimony, status, _what, body, ...[type = html]) => {
    expect(says(status, body, { 'content-type': type })).toBe(testimony);
  });

  it('silent: a form that is compressed', () => {
    expect(says(200, form, { 'content-type': html, 'content-encoding': 'gzip' })).toBe('silent');
  });

  it('silent: only the first part of a large form', () => {
    const response = { status: 200, headers: { 'content-type': html }, body: Buffer.from(form), rest: {} };
    expect(testimonyOf({ ...response, form: formIn(response) }, { signature: 'HMAC-SHA1' })).toBe('silent');
  });

  // A wrong control may get an error with HTTP 200 (docs/gateway-interface.md section 5.5).
  it.each([
    ['accepted', 200, form],
    ['accepted', 200, 'type=status-response\n&status=declined\n&error-code=1\n'],
    ['silent', 200, 'type=status-response\n&status=error\n&error-code=1\n'],
    ['silent', 200, 'type=error\n&error-code=1\n'],
    ['silent', 400, 'type=error\n'],
    ['silent', 401, page],
  ])('of a control, %s: %i with %s', (testimony, status, body) => {
    expect(says(status, body, { 'content-type': html }, 'SHA1-control')).toBe(testimony);
  });
});

const noon = Date.UTC(2026, 0, 1, 12);
const date = new Date(noon).toUTCString();

it.each([
  [0, 0],
  [900, 0],
  [1000, 0],
  [1500, -0.5],
  [-1, 0.001],
  [-90_000, 90],
  [91_000, -90],
])('a Date of whole seconds that is %d ms old shows a clock that differs by %d s', (age, skew) => {
  expect(skewOf(date, { sentAt: noon + age, receivedAt: noon + age })).toBe(skew);
});

it.each([undefined, '', 'yesterday'])('without a valid Date (%s) the difference is unknown', (text) => {
  expect(skewOf(text, { sentAt: noon, receivedAt: noon })).toBeUndefined();
});

it('a slow response shows no other clock, whether its Date is of its beginning or of its end', () => {
  for (const sentAt of [noon - 25_000, noon - 1, noon, noon + 1_000]) {
    expect(skewOf(date, { sentAt, receivedAt: sentAt + 25_000 })).toBe(0);
  }
  expect(skewOf(date, { sentAt: noon + 61_000, receivedAt: noon + 86_000 })).toBe(-60);
  expect(skewOf(date, { sentAt: noon - 85_000, receivedAt: noon - 60_000 })).toBe(60);
});

it.each<[what: string, request: object, response: object, expected?: string]>([
  ['another order', {}, { 'merchant-order-id': 'a-2' }, 'order-id'],
  ['the order in another case, with blanks', {}, { 'merchant-order-id': ' A-1 ' }],
  ['it in another Unicode form', { client_orderid: 'caf\u00e9' }, { 'merchant-order-id': 'cafe\u0301' }],
  ['another order than the other spelling', { client_orderid: '', 'client-order-id': 'b' }, {}, 'order-id'],
  ['another amount', {}, { amount: '12.51' }, 'amount'],
  ['an amount that is no number', {}, { amount: 'nothing' }],
  ['the amount as a whole number', { amount: '12.00' }, { amount: '12' }],
  ['an amount with its currency', {}, { amount: '12.50 EUR' }],
  ['a currency by its number', {}, { currency: '978' }],
  ['another currency', {}, { currency: 'USD' }, 'currency'],
  ['the currency in another case', { currency: 'eur' }, {}],
  ['the same order', {}, {}],
  ['an order without an ID', {}, { 'merchant-order-id': '', amount: '1' }],
  ['an order that the request does not name', { client_orderid: '' }, { amount: '1' }],
  ['fees on the amount', {}, { 'initial-amount': '12.50', amount: '12.00' }],
  ['a conversion', {}, { 'orig-amount': '12.50', 'orig-currency': 'EUR', amount: '13', currency: 'USD' }],
  ['the amount of the order of which a part is returned', { orderid: '7' }, { amount: '99' }],
])('a response about %s', (_, request, response, ...[expected]) => {
  const sent = { client_orderid: 'a-1', amount: '12.50', currency: 'EUR', ...request };
  const shown = { 'merchant-order-id': 'a-1', amount: '12.5', currency: 'EUR', ...response };
  const named = Object.entries(sent).filter(([, value]) => value !== '');
  expect(orderMismatchOf(named, Object.entries(shown))).toBe(expected);
});

const rowOf = (text: string, product = 'gw') => statusRowOf([...new URLSearchParams(text)], product);

describe('the row of a status query', () => {
  it.each([
    ['status=approved&gw-order-id=1', 'approved'],
    ['status=declined&gw-order-id=1', 'declined'],
    ['status=filtered&gw-order-id=1', 'declined'],
    ['status=error&gw-order-id=1&error-code=9103', 'in error'],
    ['status=error&error-code=124', 'ambiguous'],
    ['status=error&error-code=9002', 'not found'],
    ['status=error&gw-order-id=', 'not found'],
    // Of another product.
    ['status=error&pay-order-id=1', 'not found'],
    ['status=unknown&gw-order-id=1', 'unknown'],
    ['status=processing&gw-order-id=1', 'processing'],
    ['status=chain_declined&gw-order-id=1', 'processing'],
    ['status=APPROVED', 'processing'],
    ['status=approved&status=declined', 'no response'],
    ['transaction-type=sale&transaction-type=chargeback&status=approved', 'no response'],
    ['transaction-type=reversal&transaction-type=&transaction-type=reversal&status=approved', 'refunded'],
    ['type=async-response', 'no response'],
    ['transaction-type=reversal&status=approved', 'refunded'],
    ['transaction-type=refund&status=filtered', 'not refunded'],
    ['transaction-type=reversal&status=processing', 'processing'],
    ['transaction-type=chargeback&status=approved&by-request-sn=1', 'later stage'],
    ...['cancel', 'fraud', 'dispute', 'retrieval'].map(
      (type) => [`transaction-type=${type}&status=approved`, 'later stage'] as const,
    ),
  ])('of %s is "%s"', (text, row) => expect(rowOf(text)).toBe(row));

  it('takes the name of the order ID from the product, and without a readable form is "no response"', () => {
    expect(rowOf('status=error&pay-order-id=1', 'pay')).toBe('in error');
    expect(statusRowOf(undefined, 'gw')).toBe('no response');
  });
});

it.each([
  ['approved', 'paid', 'paid'],
  ['declined', 'not-paid', 'not-paid'],
  ['refunded', 'refunded', 'refunded'],
  ['not refunded', 'not-refunded', 'not-refunded'],
  ['in error', 'ask-support', 'ask-support'],
  ['ambiguous', 'ask-support', 'ask-support'],
  ['unknown', 'ask-support', 'ask-support'],
  ['not found', 'query-again', 'ask-support'],
  ['processing', 'query-again', 'ask-support'],
  ['no response', 'query-again', 'ask-support'],
] as const)('"%s" means %s, after 15 minutes %s', (name, soon, late) => {
  const decisions = [0, 899_999, 900_000].map((age) => adviceOf(name, age).decision);
  expect(decisions).toEqual([soon, soon, late]);
});
