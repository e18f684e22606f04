import { expect, it } from '@jest/globals';
import { orderMismatchOf } from '../../../src/gateway/order-mismatch.ts';

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
