import { randomUUID } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { parseCallerRequestId } from '../../../../src/proxy/inbound/validate-head.ts';

it.each([
  'a',
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
  'a, b',
  'a\n',
  'é',
  '"x"',
  '411111111111',
  'x-4111111111111111',
  'x-4111111111111112',
  '4111-1111-1111-1111',
  'x0004111111111111111',
  '74111111111111111',
  '1700000000000-4111111111111111',
  '378282246310005',
  '30569309025904.1',
  '2223003122003222',
  '6304000000000000000',
  '0d9f1f0a-0b7e-4f6e-4111-1111-1111-1111',
  '0000000000000000-4111111111111111',
  '00000000-0000-0000-4111-111111111111',
  'ffffffff-ffff-ffff-4111-111111111111',
  'f4111111111111111'.padEnd(32, 'f'),
])('the request ID %j is ignored', (id) => {
  expect(parseCallerRequestId(id)).toBeUndefined();
});

it('20,000 UUIDs and as many IDs with a time are kept', () => {
  for (let at = 0; at < 20_000; at += 1) {
    const time = 1_700_000_000_000 + at * 10_000_019;
    expect(parseCallerRequestId(`req-${time}`)).toBe(`req-${time}`);
    const id = randomUUID();
    expect(parseCallerRequestId(id)).toBe(id);
  }
});
