import type { Operation } from '../gateway/operations.ts';
import { orderIdNames } from '../identifiers.ts';
import { callbackOf } from './callbacks.ts';
import { decimalsOf } from './control.ts';
import type { Pair } from './form.ts';
import type { Order } from './ledger.ts';
import { formResponse, type SimulatorResponse } from './response.ts';
import type { Scenario, Stage } from './scenario.ts';
import type { SimulatorState } from './state.ts';
import { orderIdOf, parameter, type VerifiedRequest } from './verified-request.ts';

/**
 * Makes an order, or with `orderid` a further stage of one, as payout-pay, return and capture do; status queries say what
 * becomes of it. Stores only the fields named here: no card number, name, expiry or CVV. The response has no status, and
 * one without an order ID says why there is no order (docs/gateway-interface.md section 12).
 */
export function orderResponse(
  operation: Operation,
  request: VerifiedRequest,
  state: SimulatorState,
): SimulatorResponse {
  const { scenario, ledger } = state;
  const { path, login, serialNumber } = request;
  const endpoints = endpointsOf(request, scenario);
  const clientOrderId = orderIdOf(request) ?? '';
  const orderId = parameter(request, 'orderid');
  const existing =
    orderId === undefined ? undefined : ledger.find({ login, endpoints, clientOrderId, orderId });
  const problem = problemOf(operation, request);
  const [endpoint] = endpoints;
  if (problem !== undefined) return failed(request, 'validation-error', ...problem);
  if (endpoint === undefined) return failed(request, 'error', 'Unknown endpoint', '9004');
  if (typeof existing === 'string') return failed(request, 'error', 'Order not found', '9002');
  const excess = existing && excessOf(existing, operation, request, state.clock.now());
  if (excess !== undefined) return failed(request, 'validation-error', ...excess);
  const order = existing ?? ledger.add({ login, endpoint, clientOrderId, stages: [] });
  begin(order, operation, request, state);
  return formResponse([
    ['type', 'async-response'],
    ['serial-number', serialNumber],
    ['merchant-order-id', clientOrderId],
    [`${scenario.product}-order-id`, order.orderId],
    ['end-point-id', path['endpoint'] ?? endpoint],
  ]);
}

/** Message and code. */
type Problem = [message: string, code: string];

/**
 * Why there is no order. Only the code of a missing parameter is published. Whether an amount may be missing is not: here a
 * payment needs one, so that a service that forgets it learns of that.
 */
function problemOf({ path, parameters }: Operation, request: VerifiedRequest): Problem | undefined {
  const isMissing = (name: string) =>
    !(orderIdNames.includes(name) ? orderIdOf(request) : parameter(request, name));
  const required = Object.keys(parameters).filter((name) => parameters[name]?.required);
  const isPayment = payments.includes(transactionTypeOf(path) ?? '') && isMissing('orderid');
  const money = isPayment ? ['amount', 'currency'] : [];
  const missing = ['client_orderid', ...required, ...money].find(isMissing);
  if (missing !== undefined) return [`${missing} is missing`, '1'];
  const currency = parameter(request, 'currency');
  if (!isFitCurrency(currency)) return ['currency must be three capital letters', '9006'];
  if (isFitAmount(parameter(request, 'amount'), currency)) return undefined;
  return ['amount must be a positive number such as 12.50', '9005'];
}

/** Why an order cannot be returned or captured: nothing was paid, or less. Not published. */
function excessOf(
  order: Order,
  { path }: Operation,
  request: VerifiedRequest,
  now: number,
): Problem | undefined {
  if (!['reversal', 'capture'].includes(transactionTypeOf(path) ?? '')) return undefined;
  const paid = paidStageOf(order);
  // A second return need not wait for the first one: a service that sends one twice has to see that.
  const isFinal = paid?.['transaction-type'] === 'reversal' || (order.processingUntil ?? now) <= now;
  if (paid === undefined || !isFinal) return ['The order is not approved', '9008'];
  const { currency, amount: left } = paid;
  if ((parameter(request, 'currency') ?? currency) !== currency)
    return ['The order has another currency', '9009'];
  const amount = Number(parameter(request, 'amount') ?? left);
  return amount > 0 && amount <= Number(left) ? undefined : ['The order has not that much left', '9010'];
}

/** The stage that says how much was paid, and is left after returns. */
function paidStageOf({ stages }: Order): Stage | undefined {
  return stages.findLast(({ status }) => status === 'approved');
}

/** Begins a stage of an order: in progress for a time, then final, which a callback tells. */
function begin(
  order: Order,
  { path }: Operation,
  request: VerifiedRequest,
  { scenario, clock, callbacks, keys }: SimulatorState,
): void {
  const now = clock.now();
  const rule = scenario.transfers.find(({ client_orderid }) => client_orderid === order.clientOrderId);
  const cvv2 = parameter(request, 'cvv2') ?? '';
  const seconds = rule?.processingSeconds ?? scenario.processingSeconds;
  const status = rule?.status ?? statusOfCvv2.get(cvv2) ?? 'approved';
  const until = now + seconds * 1000;
  const stageWith = (shown: string) => stageOf(request, transactionTypeOf(path), shown, paidStageOf(order));
  const stage = {
    ...stageWith(status),
    'transaction-date': `${new Date(until).toISOString().slice(0, 19).replace('T', ' ')} UTC`,
  };
  order.meanwhile = {
    ...stageWith(rule?.processingStatus ?? 'processing'),
    ...(cvv2 === '321' && secureForm),
  };
  order.stages.push(stage);
  order.foundFrom = now + (rule?.foundAfterSeconds ?? 0) * 1000;
  order.processingUntil = until;
  const url = parameter(request, 'server_callback_url');
  const [controlKey] = keys.get(order.login)?.controlKeys ?? [];
  if (url !== undefined && controlKey !== undefined && finalStatuses.includes(status))
    callbacks.send(url, callbackOf(order, stage, controlKey), seconds);
}

const finalStatuses: readonly string[] = ['approved', 'declined', 'filtered', 'error'];

/** docs/gateway-interface.md section 12: the CVV2 decides; every other one is approved. */
const statusOfCvv2: ReadonlyMap<string, string> = new Map([
  ['217', 'unknown'],
  ...['101', '116', '119', '209'].map((cvv2) => [cvv2, 'declined'] as const),
]);

/** docs/gateway-interface.md section 2.2. The simulator has no 3-D Secure server: the order goes on by itself. */
const secureForm = {
  html: '<form method="POST" action="https://acs.example/"></form>',
  'redirect-to': 'https://acs.example/',
};

const payments: readonly string[] = ['transfer', 'payout', 'sale', 'preauth'];

/** docs/gateway-interface.md section 2.2. None for other commands, whose type is not shown. */
function transactionTypeOf(path: string): string | undefined {
  const [, command = ''] = /^\/api\/v\d+\/([a-z]+)/.exec(path) ?? [];
  if (command === 'return') return 'reversal';
  return [...payments, 'capture'].find((type) => type === command);
}

/** More than zero, with at most the decimals of its currency. A return of all has none. */
function isFitAmount(amount = '1', currency = 'EUR'): boolean {
  const [whole, fraction = ''] = /^\d{1,12}(?:\.(\d+))?$/.exec(amount) ?? [];
  return whole !== undefined && fraction.length <= decimalsOf(currency) && Number(amount) > 0;
}

/** docs/gateway-interface.md section 2.1. */
function isFitCurrency(currency = 'EUR'): boolean {
  return /^[A-Z]{3}$/.test(currency);
}

/** @param paid the stage of which something is returned or captured, if it is a further one of an order */
function stageOf(
  request: VerifiedRequest,
  type: string | undefined,
  status: string,
  paid: Stage | undefined,
): Stage {
  const currency = parameter(request, 'currency') ?? paid?.['currency'];
  return {
    'serial-number': request.serialNumber,
    status,
    ...(status === 'approved' && type !== undefined && { 'order-stage': `${type}_approved` }),
    ...(['declined', 'filtered', 'error'].includes(status) && {
      'error-message': 'Set by the scenario, or by the CVV2',
      'error-code': '9103',
    }),
    ...(type !== undefined && { 'transaction-type': type }),
    ...amountsOf(parameter(request, 'amount') ?? paid?.['amount'], type, status, paid),
    ...(currency !== undefined && { currency }),
  };
}

/**
 * docs/gateway-interface.md section 2.2: the initial amount never changes, and the other one may. That a return leaves the
 * rest of it is our choice.
 */
function amountsOf(
  requested: string | undefined,
  type: string | undefined,
  status: string,
  paid: Stage = {},
): Stage {
  if (requested === undefined) return {};
  const { amount = requested, 'initial-amount': initial = amount, 'total-reversal-amount': returned } = paid;
  if (type !== 'reversal') return { amount: requested, 'initial-amount': initial };
  const now = status === 'approved' ? Number(requested) : 0;
  const money = (units: number) => units.toFixed(decimalsOf(paid['currency']));
  return {
    'reversal-amount': requested,
    'total-reversal-amount': money(Number(returned ?? 0) + now),
    amount: money(Number(amount) - now),
    'initial-amount': initial,
  };
}

/**
 * docs/gateway-interface.md sections 2.2, 4.2 and 7. The order ID comes from `orderid` as in the parameter table, not from
 * `order_id` as in the sample.
 */
export function statusResponse(
  request: VerifiedRequest,
  { ledger, scenario, clock }: SimulatorState,
): SimulatorResponse {
  const { login, serialNumber } = request;
  const clientOrderId = orderIdOf(request);
  const unresolved = (message: string, code: string) => failed(request, 'status-response', message, code);
  if (clientOrderId === undefined) return unresolved('client_orderid is missing', '9001');
  const endpoints = endpointsOf(request, scenario);
  const order = ledger.find({ login, endpoints, clientOrderId, orderId: parameter(request, 'orderid') });
  if (order === 'ambiguous') return unresolved('AMBIGUOUS_CLIENT_ORDER_ID', '124');
  const now = clock.now();
  if (order === 'unknown' || (order.foundFrom ?? now) > now) return unresolved('Order not found', '9002');

  const requested = parameter(request, 'by-request-sn');
  const stage =
    requested === undefined
      ? order.stages.at(-1)
      : order.stages.find((one) => one['serial-number'] === requested);
  if (stage === undefined) return unresolved('No such request for this order', '9003');
  const isProcessing = stage === order.stages.at(-1) && (order.processingUntil ?? now) > now;
  const shown = isProcessing && order.meanwhile ? order.meanwhile : stage;
  const echo: Pair[] = requested === undefined ? [] : [['by-request-sn', requested]];
  const fields: Pair[] = [
    ['type', 'status-response'],
    ['serial-number', serialNumber],
    ...echo,
    ['merchant-order-id', order.clientOrderId],
    [`${scenario.product}-order-id`, order.orderId],
    ...Object.entries(shown).filter(([name]) => name !== 'serial-number'),
  ];
  return formResponse(fields);
}

/** How a group query differs from a single one is not shown: here it covers all endpoints of the group. */
function endpointsOf(
  { path: { endpoint, endpointGroup = '' } }: VerifiedRequest,
  { endpoints, groups }: Scenario,
): readonly string[] {
  if (endpoint !== undefined) return endpoints.filter((known) => known === endpoint);
  return (Object.hasOwn(groups, endpointGroup) ? groups[endpointGroup] : undefined) ?? [];
}

const documentedCodes = ['1', '124'];

/**
 * The fields are documented (docs/gateway-interface.md sections 7 and 12); message and code are not, except two. Only a
 * status response has a status.
 */
function failed(
  request: VerifiedRequest,
  type: 'status-response' | 'validation-error' | 'error',
  message: string,
  code: string,
): SimulatorResponse {
  const status: Pair[] = type === 'status-response' ? [['status', 'error']] : [];
  const fields: Pair[] = [
    ['type', type],
    ['serial-number', request.serialNumber],
    ['merchant-order-id', orderIdOf(request) ?? ''],
    ...status,
    ['error-message', message],
    ['error-code', code],
  ];
  return formResponse(fields, !documentedCodes.includes(code));
}
