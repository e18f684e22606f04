import { mergeOperations, type Operation, verifyCallback } from '../gateway/operations.ts';
import type { Pair } from './form.ts';
import { orderResponse, statusResponse } from './orders.ts';
import { VerificationError } from './rejections.ts';
import { formResponse, type SimulatorResponse } from './response.ts';
import type { Balance, Scenario } from './scenario.ts';
import type { SimulatorState } from './state.ts';
import { orderIdOf, parameter, type VerifiedRequest } from './verified-request.ts';

/** An operation of the proxy, as the simulator serves it. */
export interface Route {
  readonly operation: Operation;
  /** In express syntax: `/gw/api/v4/status/:endpoint`. */
  readonly path: string;
  respond(request: VerifiedRequest, state: SimulatorState): SimulatorResponse;
}

/** The built-in operations and those of the scenario. The first that matches a path is the one that the proxy finds. */
export function routesOf({ product, operations, responses }: Scenario): Route[] {
  return mergeOperations([operations])
    .filter(({ name }) => name !== verifyCallback)
    .toSorted(literalsFirst)
    .map((operation) => ({
      operation,
      path: `/${product}${operation.path.replaceAll(/\{(\w+)\}/g, ':$1')}`,
      respond: responderOf(operation, responses),
    }));
}

/** The fields of the scenario, if it has any; an operation that changes something makes an order. */
function responderOf(operation: Operation, responses: Scenario['responses']): Route['respond'] {
  const { name, path, readOnly } = operation;
  const fields = Object.hasOwn(responses, name) ? responses[name] : undefined;
  if (fields !== undefined) return (request) => scriptedResponse(fields, request);
  if (!readOnly) return (request, state) => orderResponse(operation, request, state);
  if (path.includes('/get-balance/')) return balanceResponse;
  if (path.includes('/status/')) return statusResponse;
  return (request) => scriptedResponse({ type: `${name}-response` }, request);
}

/** Express takes the first path that matches; for the proxy a literal segment precedes a placeholder. */
function literalsFirst(a: Operation, b: Operation): number {
  const [keyA, keyB] = [a, b].map(({ path }) => path.replaceAll(/\{\w+\}/g, '\uffff'));
  return (keyA ?? '') < (keyB ?? '') ? -1 : 1;
}

/** Undocumented. */
function scriptedResponse(
  fields: Readonly<Record<string, string>>,
  request: VerifiedRequest,
): SimulatorResponse {
  const orderId = orderIdOf(request);
  const order: Pair[] = orderId === undefined ? [] : [['merchant-order-id', orderId]];
  return formResponse([...Object.entries(fields), ['serial-number', request.serialNumber], ...order], true);
}

/**
 * The balance that `balance-name` names, or all (docs/gateway-interface.md section 4.1). The response for an unknown name
 * is undocumented; here it is an empty array.
 *
 * @throws VerificationError `balance-not-enabled` for a login without balances in the scenario
 */
function balanceResponse(
  request: VerifiedRequest,
  { scenario: { logins } }: SimulatorState,
): SimulatorResponse {
  const balances = logins[request.login]?.balances;
  if (balances === undefined) throw new VerificationError('balance-not-enabled');
  const name = parameter(request, 'balance-name');
  const shown = balances.filter((balance) => name === undefined || balance.name === name);
  const records = shown.map((balance) => record(balance, request.login));
  return {
    status: 200,
    // Not shown either; this is the type of JSON.
    type: 'application/json',
    body: `[${records.join(',')}]`,
    undocumented: shown.length === 0 && name !== undefined,
  };
}

/** docs/gateway-interface.md section 2.1. Not `JSON.stringify`, which cannot print three decimals. */
function record(balance: Balance, login: string): string {
  const onHold = balance['total-short-term-hold-amount'] + balance['total-rolling-reserve-amount'];
  const fields = {
    name: JSON.stringify(balance.name),
    amount: decimals(balance.amount),
    'online-balance-live-amount': decimals(balance.amount - onHold),
    'total-short-term-hold-amount': decimals(balance['total-short-term-hold-amount']),
    'total-rolling-reserve-amount': decimals(balance['total-rolling-reserve-amount']),
    currency: JSON.stringify(balance.currency),
    merchantLogin: JSON.stringify(login),
    'amount-buffer-hold': decimals(balance['amount-buffer-hold']),
    externalMerchantIdentifier: JSON.stringify(balance.externalMerchantIdentifier),
  };
  const members = Object.entries(fields).map(([name, json]) => `${JSON.stringify(name)}:${json}`);
  return `{${members.join(',')}}`;
}

function decimals(amount: number): string {
  return amount.toFixed(3);
}
