import { describe, expect, it } from '@jest/globals';
import { adviceOf, statusRowOf } from '../../../src/gateway/payment-status.ts';

const rowOf = (text: string, product = 'gw') => statusRowOf([...new URLSearchParams(text)], product);

describe('the row of a status query', () => {
  it.each([
    ['status=approved&gw-order-id=1', 'approved'],
    ['status=declined&gw-order-id=1', 'declined'],
    ['status=filtered&gw-order-id=1', 'declined'],
    ['status=error&gw-order-id=1&error-code=9103', 'in error'],
    ['status=error&error-code=124', 'ambiguous'],
    ['status=error&gw-order-id=1&error-code=124', 'ambiguous'],
    ['status=error&error-code=9002', 'not found'],
    ['status=error&merchant-order-id=a', 'not found'],
    ['status=error&gw-order-id=', 'not found'],
    ['status=unknown&gw-order-id=1', 'unknown'],
    ['status=processing&gw-order-id=1', 'processing'],
    ['status=chain_declined&gw-order-id=1', 'processing'],
    ['status=APPROVED', 'processing'],
    ['status=', 'no response'],
    ['type=async-response', 'no response'],
    ['', 'no response'],
  ])('of %s is "%s"', (text, row) => {
    expect(rowOf(text)).toBe(row);
  });

  it('without a readable form is "no response"', () => {
    expect(statusRowOf(undefined, 'gw')).toBe('no response');
  });

  it('takes the name of the order ID from the product', () => {
    expect(rowOf('status=error&pay-order-id=1', 'pay')).toBe('in error');
    expect(rowOf('status=error&pay-order-id=1', 'gw')).toBe('not found');
  });

  it('of two statuses that differ is neither', () => {
    expect(rowOf('status=approved&status=declined')).toBe('no response');
    expect(rowOf('status=approved&status=approved')).toBe('approved');
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
