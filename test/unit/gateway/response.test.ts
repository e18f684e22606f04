import type { IncomingHttpHeaders } from 'node:http';
import { describe, expect, it, jest } from '@jest/globals';
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
    ['image/png', false],
    ['', false],
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

  it.each([
    ['fields', 'a=1&'.repeat(262_144)],
    ['fields within the bytes', 'a=1&'.repeat(65_536)],
    ['bytes', `a=${'%41'.repeat(349_000)}`],
  ])('costs no decoding: too many %s', (_what, text) => {
    const decoded = jest.spyOn(globalThis, 'decodeURIComponent');
    try {
      expect(parse(text)).toBeUndefined();
      expect(decoded).toHaveBeenCalledTimes(0);
      expect(parse('a=1&b=2')).toHaveLength(2);
      expect(decoded).toHaveBeenCalledTimes(4);
    } finally {
      decoded.mockRestore();
    }
  });
});

describe('a response as JSON', () => {
  it('takes time linear in its size: one name repeated in 1 MiB', () => {
    const fields = Array.from({ length: 349_525 }, () => ['a', ''] as const);
    const values: unknown = JSON.parse(responseAsJson(fields));
    expect(values).toEqual({ a: expect.any(Array) });
    expect(Object.values(values ?? {})[0]).toHaveLength(349_525);
  });

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
    ...['approved', 'declined', 'error', 'filtered', 'processing', 'unknown', 'chain_declined'].map(
      (status) => ['status', status, { gatewayResult: status }] as const,
    ),
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
    const second = uuid.replace('9', 'A');
    const fields = (serial: string, status: string, code: string) =>
      [
        ['serial-number', serial],
        ['status', status],
        ['error-code', code],
      ] as const;
    expect(resultOf([...fields(uuid, 'declined', '124'), ...fields(second, 'approved', '1')])).toEqual({
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
  const json = { 'content-type': 'application/json' };
  const inJson = (type: string): string => `{"type":"${type}","serial-number":"17d3"}`;
  const page = '<html><body>Welcome</body></html>';

  it.each<[string, number, string, string, ...IncomingHttpHeaders[]]>([
    ['accepted', 200, 'a form with its type', form],
    ['accepted', 202, 'another success', form],
    ['accepted', 200, 'a JSON object with its type', inJson('status-response'), json],
    ['accepted', 200, 'a list of balances', '[{"name":"acme","amount":"1.00","currency":"EUR"}]', json],
    ['accepted', 200, 'an empty list of balances', '[]', json],
    ['error', 200, 'an error', 'type=error\n&error-code=124\n'],
    ['error', 200, 'a validation error', 'type=validation-error\n'],
    ['error', 200, 'an error in JSON', inJson('error'), json],
    ['refused', 400, 'a validation error', 'type=validation-error\n'],
    ['refused', 404, 'an error', 'type=error\n'],
    ['refused', 409, 'an error in JSON', inJson('error'), json],
    ['refused', 422, 'an error', 'type=error\n'],
    ['rejected', 401, 'nothing', ''],
    ['rejected', 403, 'a form', form],
    ['rejected', 403, 'a page', page],
    ['silent', 200, 'a page', page],
    ['silent', 200, 'nothing', ''],
    ['silent', 200, 'the health of a load balancer', '{"status":"ok"}', json],
    ['silent', 200, 'a form without a type', 'status=ok\n'],
    ['silent', 200, 'a list of something else', '[{"name":"acme"}]', json],
    [
      'silent',
      404,
      'a problem document',
      '{"type":"about:blank"}',
      { 'content-type': 'application/problem+json' },
    ],
    ['silent', 200, 'JSON with an odd type', '{"type":1}', json],
    ['silent', 200, 'JSON of another content type', inJson('status-response'), { 'content-type': html }],
    [
      'accepted',
      200,
      'JSON of a vendor',
      inJson('status-response'),
      { 'content-type': 'application/vnd.pay+json' },
    ],
    ['silent', 200, 'a form that is compressed', form, { 'content-type': html, 'content-encoding': 'gzip' }],
    ['silent', 200, 'a form that is too large', `${form}&a=${'b'.repeat(readable.bytes)}`],
    ['silent', 200, 'JSON that is too large', inJson('b'.repeat(readable.bytes)), json],
    ['silent', 302, 'a form', form],
    ['silent', 400, 'a page', page],
    ['silent', 404, 'a page', page],
    ['silent', 429, 'a form', form],
    ['silent', 500, 'a form', form],
    ['silent', 503, 'a page', page],
  ])('%s: %i with %s', (testimony, status, _what, body, ...[headers]) => {
    expect(says(status, body, headers)).toBe(testimony);
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
    ['silent', 200, 'type=validation-error\n&error-code=1\n'],
    ['silent', 400, 'type=error\n'],
    ['silent', 401, page],
    ['silent', 403, page],
    ['silent', 500, page],
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

const mismatch = (request: Record<string, string>, response: Record<string, string>) =>
  orderMismatchOf(Object.entries(request), Object.entries(response));
const paid = { client_orderid: 'a-1', amount: '12.50', currency: 'EUR' };
const shown = { 'merchant-order-id': 'a-1', amount: '12.5', currency: 'EUR' };

it.each([
  ['another order', paid, { ...shown, 'merchant-order-id': 'a-2' }, 'order-id'],
  ['the order in another case, with blanks', paid, { 'merchant-order-id': ' A-1 ' }, undefined],
  [
    'the order in another Unicode form',
    { client_orderid: 'caf\u00e9' },
    { 'merchant-order-id': 'cafe\u0301' },
    undefined,
  ],
  [
    'another order, by the other spelling',
    { 'client-order-id': 'a-1' },
    { 'merchant-order-id': 'b' },
    'order-id',
  ],
  ['another amount', paid, { ...shown, amount: '12.51' }, 'amount'],
  ['an amount that is no number', paid, { ...shown, amount: 'nothing' }, undefined],
  ['the amount as a whole number', { ...paid, amount: '12.00' }, { ...shown, amount: '12' }, undefined],
  ['an amount with its currency', paid, { ...shown, amount: '12.50 EUR' }, undefined],
  ['a currency by its number', paid, { ...shown, currency: '978' }, undefined],
  ['another currency', paid, { ...shown, currency: 'USD' }, 'currency'],
  ['the currency in another case', { ...paid, currency: 'eur' }, shown, undefined],
  ['the same order', paid, shown, undefined],
  ['an order without an ID', paid, { 'merchant-order-id': '' }, undefined],
  ['no order', paid, { type: 'error' }, undefined],
  ['an order that the request does not name', { login: 'acme' }, shown, undefined],
  ['an amount with a comma', { ...paid, amount: '12,50' }, { ...shown, amount: '12,50' }, undefined],
  ['fees on the amount', paid, { ...shown, 'initial-amount': '12.50', amount: '12.00' }, undefined],
  [
    'a conversion',
    paid,
    { ...shown, 'orig-amount': '12.50', 'orig-currency': 'EUR', amount: '13', currency: 'USD' },
    undefined,
  ],
  [
    'the amount of the order of which a part is returned',
    { ...paid, orderid: '7' },
    { ...shown, amount: '99' },
    undefined,
  ],
] as const)('a response about %s', (_, request, response, expected) => {
  expect(mismatch(request, response)).toBe(expected);
});

const rowOf = (text: string, product = 'gw') => statusRowOf([...new URLSearchParams(text)], product);

describe('the row of a status query', () => {
  it.each([
    ['status=approved&gw-order-id=1', 'approved'],
    ['status=approved&status=approved', 'approved'],
    ['status=declined&gw-order-id=1', 'declined'],
    ['status=filtered&gw-order-id=1', 'declined'],
    ['status=error&gw-order-id=1&error-code=9103', 'in error'],
    ['status=error&error-code=124', 'ambiguous'],
    ['status=error&gw-order-id=1&error-code=124', 'ambiguous'],
    ['status=error&error-code=9002', 'not found'],
    ['status=error&merchant-order-id=a', 'not found'],
    ['status=error&gw-order-id=', 'not found'],
    // Of another product.
    ['status=error&pay-order-id=1', 'not found'],
    ['status=unknown&gw-order-id=1', 'unknown'],
    ['status=processing&gw-order-id=1', 'processing'],
    ['status=chain_declined&gw-order-id=1', 'processing'],
    ['status=APPROVED', 'processing'],
    ['status=approved&status=declined', 'no response'],
    ['status=', 'no response'],
    ['type=async-response', 'no response'],
    ['', 'no response'],
  ])('of %s is "%s"', (text, row) => expect(rowOf(text)).toBe(row));

  it('takes the name of the order ID from the product, and without a readable form is "no response"', () => {
    expect(rowOf('status=error&pay-order-id=1', 'pay')).toBe('in error');
    expect(statusRowOf(undefined, 'gw')).toBe('no response');
  });
});

it.each([
  ['approved', 'paid', 'paid'],
  ['declined', 'not-paid', 'not-paid'],
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
