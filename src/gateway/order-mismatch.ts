import { orderIdsIn } from '../identifiers.ts';
import type { OrderMismatch } from '../request-context.ts';

type Pairs = readonly (readonly [name: string, value: string])[];

/**
 * What shows that a response is about another order than the request: responses are crossed, or the gateway errs. What
 * one of them does not have, or that cannot be compared, is not. Amount and currency are compared as they were requested
 * (docs/gateway-interface.md section 2.2), and not if the request names an order that there is, whose own they may be.
 */
export function orderMismatchOf(request: Pairs, response: Pairs): OrderMismatch | undefined {
  const [sent] = orderIdsIn(request);
  const shown = valueOf(response, 'merchant-order-id');
  if (!sent || !shown) return undefined;
  if (differ(folded, sent, shown)) return 'order-id';
  if (valueOf(request, 'orderid', 'order_id')) return undefined;
  const amount = valueOf(response, 'orig-amount', 'initial-amount', 'amount');
  if (differ(decimal, valueOf(request, 'amount'), amount)) return 'amount';
  const currency = valueOf(response, 'orig-currency', 'currency');
  return differ(letters, valueOf(request, 'currency'), currency) ? 'currency' : undefined;
}

/** Of the first of these names that there is. */
function valueOf(pairs: Pairs, ...names: readonly string[]): string {
  const found = names.map((name) => pairs.find(([one]) => one === name)?.[1] ?? '');
  return found.find((value) => value !== '') ?? '';
}

/** Whether both can be read, and are not the same. */
function differ(read: (text: string) => unknown, one: string, other: string): boolean {
  const [first, second] = [read(one.trim()), read(other.trim())];
  return first !== undefined && second !== undefined && first !== second;
}

/** A gateway may store an order ID in another case or Unicode form. Bounded, since normalization can be slow. */
function folded(orderId: string): string {
  return orderId.slice(0, 512).normalize('NFC').toLowerCase();
}

/** 12.5 is 12.50. */
function decimal(amount: string): number | undefined {
  return /^\d+(?:\.\d+)?$/.test(amount) ? Number(amount) : undefined;
}

/** usd is USD; 840 is not compared. */
function letters(currency: string): string | undefined {
  return /^[a-z]{3}$/i.test(currency) ? currency.toUpperCase() : undefined;
}
