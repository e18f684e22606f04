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
])('the request ID %j is ignored', (id) => {
  expect(parseCallerRequestId(id)).toBeUndefined();
});

it('of 20,000 UUIDs and as many IDs with a time, all but a few are kept', () => {
  let ignored = 0;
  for (let at = 0; at < 20_000; at += 1) {
    const time = 1_700_000_000_000 + at * 10_000_019;
    expect(parseCallerRequestId(`req-${time}`)).toBe(`req-${time}`);
    if (parseCallerRequestId(randomUUID()) === undefined) ignored += 1;
  }
  expect(ignored).toBeLessThan(20);
});
