import { orderIdsIn } from '../identifiers.ts';
import type { OrderMismatch } from '../request-context.ts';

type Pairs = readonly (readonly [name: string, value: string])[];

/**
 * What shows that a response is about another order than the request: responses are crossed, or the gateway errs. What
 * one of them does not have is not compared. Amount and currency are compared as they were requested
 * (docs/gateway-interface.md section 2.2), and not if the request names an order that there is, whose own they may be.
 *
 * @param response absent if it is no form
 */
export function orderMismatchOf(request: Pairs, response: Pairs = []): OrderMismatch | undefined {
  const [sent] = orderIdsIn(request);
  const shown = valueOf(response, 'merchant-order-id');
  if (!sent || !shown) return undefined;
  if (sent !== shown) return 'order-id';
  if (valueOf(request, 'orderid', 'order_id')) return undefined;
  const [amount, shownAmount] = [
    valueOf(request, 'amount'),
    valueOf(response, 'orig-amount', 'initial-amount', 'amount'),
  ];
  // 12.5 is 12.50.
  const isOtherAmount = amount !== shownAmount && Number(amount) !== Number(shownAmount);
  if (amount && shownAmount && isOtherAmount) return 'amount';
  const [currency, shownCurrency] = [
    valueOf(request, 'currency'),
    valueOf(response, 'orig-currency', 'currency'),
  ];
  // usd is USD.
  const isOther = currency?.toUpperCase() !== shownCurrency?.toUpperCase();
  return currency && shownCurrency && isOther ? 'currency' : undefined;
}

/** Of the first of these names that there is. */
function valueOf(pairs: Pairs, ...names: readonly string[]): string | undefined {
  const found = names.map((name) => pairs.find(([one]) => one === name)?.[1]);
  return found.find((value) => value !== undefined && value !== '');
}
