import { expect, it } from '@jest/globals';
import { isShownInFull, shownOrderId } from '../../../src/gateway/order-id.ts';

it.each([
  ['order-1', true],
  ['a'.repeat(60_000), false],
  ['a\nb', false],
  ['4111111111111111', false],
  ['', false],
])('whether what is shown of %.20j is all of it: %j', (orderId, isAll) => {
  const shown = shownOrderId({}, [['client_orderid', orderId]]) ?? '';
  expect(isShownInFull(shown)).toBe(isAll);
});
