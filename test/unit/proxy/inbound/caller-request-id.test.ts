import { expect, it } from '@jest/globals';
import { parseCallerRequestId } from '../../../../src/proxy/inbound/validate-head.ts';

it.each(['a', 'order-7.2_B', '0d9f1f0a-0b7e-4f6e-9a3c-6f0b5a1f2c11', 'x'.repeat(64), '12345678901'])(
  'the request ID %s is kept',
  (id) => {
    expect(parseCallerRequestId(id)).toBe(id);
  },
);

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
])('the request ID %j is ignored', (id) => {
  expect(parseCallerRequestId(id)).toBeUndefined();
});
