import { randomBytes, randomUUID } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { prefersJson } from '../../../../src/proxy/inbound/send-response.ts';
import { parseTraceparent } from '../../../../src/proxy/inbound/trace-context.ts';
import {
  describeContentCoding,
  describeMediaType,
  isForm,
  parseCallerRequestId,
} from '../../../../src/proxy/inbound/validate-head.ts';

const form = 'application/x-www-form-urlencoded';

it.each([form, `${form};charset=UTF-8`, `${form}; charset="utf-8"`, form.toUpperCase()])(
  '%s is a form',
  (type) => {
    expect(isForm(type)).toBe(true);
  },
);

describe('what arrived instead of a form', () => {
  it.each([
    [undefined, 'The request has a body but no Content-Type.'],
    ['application/json', 'The Content-Type is application/json.'],
    ['Multipart/Form-Data; boundary=4111111111111111', 'The Content-Type is multipart/form-data.'],
    [`${form}; charset=iso-8859-1`, 'The form has the charset iso-8859-1.'],
    [`${form}; boundary=x`, 'The Content-Type has other parameters than a charset.'],
    ['', 'The Content-Type is not that of a form.'],
    [`${form}; charset=4111111111111111`, 'The Content-Type has other parameters than a charset.'],
    ['text/4111111111111111', 'The Content-Type is not that of a form.'],
    [`text/${'x'.repeat(9_000)}`, 'The Content-Type is not that of a form.'],
  ])('is described for %j, without data that may be in it', (type, text) => {
    expect(isForm(type ?? '')).toBe(false);
    expect(describeMediaType(type)).toBe(text);
  });

  it.each([
    ['GZIP', 'The Content-Encoding is gzip.'],
    ['4111111111111111', 'The request has a Content-Encoding.'],
  ])('is described for the encoding %s', (coding, text) => {
    expect(describeContentCoding(coding)).toBe(text);
  });
});

it.each([
  'Application/JSON; charset=utf-8',
  'application/json;charset="utf-8";q=0.3',
  'application/json;profile="https://a.test/b,c;q=0"',
  'application/vnd.pay+json; version=4, */*;q=0.8',
  'application/json;q=0, application/vnd.pay+json',
  '*/*, application/json;charset=utf-8',
  'application/json;charset=utf-8, text/html;charset=utf-8',
  'text/html;level=1;q=0.4, application/json;indent=2;q=0.5',
  'text/html;q=0, */*',
  'application/*',
])('a client prefers JSON with Accept: %s', (accept) => {
  expect(prefersJson(accept)).toBe(true);
});

it.each([
  undefined,
  '*/*;charset=utf-8',
  'text/*, application/*',
  'text/html, application/json;charset=utf-8',
  'text/html;charset=utf-8, application/json;charset=utf-8;q=0.9',
  'application/json;charset=utf-8;q=0',
  'application/json;q=0.3;charset=utf-8, */*;q=0.4',
  'text/html;note="application/json", */*;q=0.1',
  'application/+json',
  'application/json;q=high',
  'application/pay+jsonld',
])('a client gets the form with Accept: %s', (accept) => {
  expect(prefersJson(accept)).toBe(false);
});

it.each([
  'order-7.2_B',
  '0d9f1f0a-0b7e-4f6e-9a3c-6f0b5a1f2c11',
  'x'.repeat(64),
  '12345678901',
  // Unix times whose last digit is, by chance, Luhn's check digit; dates with times.
  'req-1700000000003',
  '1798761600008-4',
  'web.1700000000000006',
  'job-1700000000000000009.7',
  '20261126213000-a',
  '20261126213000123_7',
  '175928847299117063',
  '0d9f1f0a-0b7e-4f6e-9a3c-411111111111',
  // Random hex digits, and a time in seconds, in milliseconds with a counter.
  'b658a24e6e612b388363043397e05ae5',
  '1-c71a6852-690459797132d04b9d6e601e',
  '1700000065-73083-196',
  '17000000000000004',
])('the request ID %s is kept', (id) => {
  expect(parseCallerRequestId(id)).toBe(id);
});

it.each([
  undefined,
  '',
  'x'.repeat(65),
  'a b',
  '411111111111',
  'x-4111111111111111',
  'x-4111111111111112',
  'x0004111111111111111',
  '74111111111111111',
  '1700000000000-4111111111111111',
  '0d9f1f0a-0b7e-4f6e-4111-1111-1111-1111',
  '0000000000000000-4111111111111111',
  '00000000-0000-0000-4111-111111111111',
  'ffffffff-ffff-ffff-4111-111111111111',
  'f4111111111111111'.padEnd(32, 'f'),
])('the request ID %j is ignored', (id) => {
  expect(parseCallerRequestId(id)).toBeUndefined();
});

it('2,000 UUIDs and as many IDs with a time are kept', () => {
  for (let at = 0; at < 2_000; at += 1) {
    const time = 1_700_000_000_000 + at * 10_000_019;
    expect(parseCallerRequestId(`req-${time}`)).toBe(`req-${time}`);
    const id = randomUUID();
    expect(parseCallerRequestId(id)).toBe(id);
  }
});

const traceId = '0af7651916cd43dd8448eb211c80319c';
const parent = 'b7ad6b7169203331';

describe('a traceparent', () => {
  it.each([
    ['sampled', `00-${traceId}-${parent}-01`, true],
    ['not sampled', `00-${traceId}-${parent}-00`, false],
    ['sampled, with the random flag of level 2', `00-${traceId}-${parent}-03`, true],
    ['of a later version', `01-${traceId}-${parent}-01`, true],
    ['of a later version with further fields', `cc-${traceId}-${parent}-01-what-the-future-brings`, true],
  ])('that is %s gives its trace id and whether it is sampled', (_name, header, sampled) => {
    expect(parseTraceparent(header)).toEqual({ traceId, spanId: parent, sampled });
  });

  it.each(['4d4111111111111111e7b6ad6b7169aa', 'b658a24e6e612b388363043397e05ae5'])(
    'with the random id %s, in which digits are by chance like those of a card, is kept',
    (id) => {
      expect(parseTraceparent(`00-${id}-${parent}-01`)).toMatchObject({ traceId: id });
    },
  );

  it.each([
    ['of version ff', `ff-${traceId}-${parent}-01`],
    ['of version 00 with further fields', `00-${traceId}-${parent}-01-more`],
    ['of a later version without a dash after the flags', `cc-${traceId}-${parent}-01.more`],
    ['without a trace id', `00-${'0'.repeat(32)}-${parent}-01`],
    ['without a parent id', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['of a card number as parent id', `00-${traceId}-4111111111111111-01`],
    ['of a card number that zeros fill up', `00-${'4111111111111111'.padStart(32, '0')}-${parent}-01`],
    ['of a card number with zeros after it', `00-${'4111111111111111'.padEnd(32, '0')}-${parent}-01`],
    [
      'of a card number among letters',
      `00-${'4111111111111111'.padStart(20, 'a').padEnd(32, 'b')}-${parent}-01`,
    ],
    [
      'of a card number after a digit',
      `00-${'74111111111111111'.padStart(20, 'a').padEnd(32, 'b')}-${parent}-01`,
    ],
    ['in capitals', `00-${traceId.toUpperCase()}-${parent}-01`],
  ])('that is %s is ignored', (_name, header) => {
    expect(parseTraceparent(header)).toBeUndefined();
  });

  it.each([
    ['15 digits (American Express)', '378282246310005'],
    ['14 digits (Diners Club)', '30569309025904'],
    ['16 digits (Mastercard, second range)', '2223003122003222'],
    ['16 digits (Discover)', '6011111111111117'],
    ['16 digits (JCB)', '3530111333300000'],
    ['16 digits (Mir)', '2200000000000004'],
    ['19 digits (Maestro)', '6304000000000000000'],
    ['13 digits (Visa, old)', '4222222222222'],
    ['15 digits (airlines)', '135410014004955'],
  ])('that holds a card number of %s is ignored, whatever is around it', (_name, number) => {
    for (const id of [
      number.padStart(32, '0'),
      number.padEnd(32, '0'),
      `f${number}`.padEnd(32, 'e'),
      `1${number}`.padStart(20, 'a').padEnd(32, 'b'),
    ]) {
      expect(parseTraceparent(`00-${id}-${parent}-01`)).toBeUndefined();
    }
  });

  it('of random IDs is kept', () => {
    const count = 5_000;
    let ignored = 0;
    for (let at = 0; at < count; at += 1) {
      const parsed = parseTraceparent(
        `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-01`,
      );
      if (parsed === undefined) ignored += 1;
    }
    // One in ten thousand parent IDs is like a card number: without a letter among its 16 digits.
    expect(ignored / count).toBeLessThan(0.002);
  });
});
