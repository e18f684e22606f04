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
  const found = orderId === undefined ? undefined : ledger.find({ login, endpoints, clientOrderId, orderId });
  const existing = typeof found === 'string' ? undefined : found;
  const change = changeOf(operation, request, existing);
  const problem = problemOf(operation, request, change) ?? excessOf(change, existing, state.clock.now());
  const [endpoint] = endpoints;
  const fail = (type: 'validation-error' | 'error', ...problem: NonNullable<Problem>) => {
    ledger.addFailure({ login, clientOrderId, serialNumber, problem });
    return failed(request, type, ...problem);
  };
  if (problem !== undefined) return fail('validation-error', ...problem);
  if (endpoint === undefined) return fail('error', 'Unknown endpoint', '9004');
  if (typeof found === 'string') return fail('error', 'Order not found', '9002');
  const order = existing ?? ledger.add({ login, endpoint, clientOrderId, stages: [] });
  begin(order, change, request, state);
  return formResponse([
    ['type', 'async-response'],
    ['serial-number', serialNumber],
    ['merchant-order-id', clientOrderId],
    [`${scenario.product}-order-id`, order.orderId],
    ['end-point-id', path['endpoint'] ?? endpoint],
  ]);
}

/** What a request makes of an order. */
type Change = ReturnType<typeof changeOf>;

function changeOf({ path }: Operation, request: VerifiedRequest, order: Order | undefined) {
  return {
    type: transactionTypeOf(path),
    amount: parameter(request, 'amount'),
    currency: parameter(request, 'currency'),
    /** It says how much was paid, and is left after returns. That of a scenario need not have amounts. */
    paid: order?.stages.findLast(({ status }) => status === 'approved'),
  };
}

type Problem = [message: string, code: string] | undefined;

/**
 * Why there is no order. Only the code of a missing parameter is published. Whether an amount may be missing is not: here a
 * payment needs one, so that a service that forgets it learns of that.
 */
function problemOf({ parameters, once }: Operation, request: VerifiedRequest, change: Change): Problem {
  const isMissing = (name: string) =>
    !(orderIdNames.includes(name) ? orderIdOf(request) : parameter(request, name));
  const required = Object.keys(parameters).filter((name) => parameters[name]?.required);
  const missing = ['client_orderid', ...required].find(isMissing);
  if (missing !== undefined) return [`${missing} is missing`, '1'];
  const isPayment = once && payments.includes(change.type ?? '');
  const { amount = isPayment ? '' : '1', currency = isPayment ? '' : 'EUR', paid } = change;
  if (!/^[A-Z]{3}$/.test(currency)) return ['currency must be three capital letters', '9006'];
  if (isFitAmount(amount, change.currency ?? paid?.['currency'])) return undefined;
  return ['amount must be a positive number such as 12.50', '9005'];
}

/** Why nothing of an order is returned or captured: it is not paid, or not so much, or captured before. Not published. */
function excessOf(change: Change, order: Order | undefined, now: number): Problem {
  const { type = '', paid, amount: asked = paid?.['amount'] ?? '1', currency = paid?.['currency'] } = change;
  if (order === undefined || !['reversal', 'capture'].includes(type)) return undefined;
  const last = paid?.['transaction-type'] ?? '';
  // A second return need not wait for the first one: a service that sends one twice has to see that.
  const isPaid = last === 'reversal' || (order.processingUntil ?? now) <= now;
  if (paid === undefined || !isPaid) return ['The order is not approved', '9008'];
  const isCaptured = type === 'capture' && ['reversal', 'capture'].includes(last);
  const left =
    isCaptured || currency !== (paid['currency'] ?? currency) ? 0 : Number(paid['amount'] ?? asked);
  if (Number(asked) > 0 && Number(asked) <= left) return undefined;
  return ['The order has not that much left in this currency', '9009'];
}

/** Begins a stage of an order: in progress for a time, then final, which a callback tells. */
function begin(
  order: Order,
  change: Change,
  request: VerifiedRequest,
  { scenario, clock, callbacks, keys }: SimulatorState,
): void {
  const now = clock.now();
  const rule = scenario.transfers.find(({ client_orderid }) => client_orderid === order.clientOrderId);
  const cvv2 = parameter(request, 'cvv2') ?? '';
  const seconds = rule?.processingSeconds ?? scenario.processingSeconds;
  const status = rule?.status ?? statusOfCvv2.get(cvv2) ?? 'approved';
  const until = now + seconds * 1000;
  const date = `${new Date(until).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
  const stage = { ...stageOf(request, change, status), 'transaction-date': date };
  order.stages.push(stage);
  order.foundFrom = now + (rule?.foundAfterSeconds ?? 0) * 1000;
  order.processingUntil = until;
  const meanwhile = stageOf(request, change, rule?.processingStatus ?? 'processing');
  order.meanwhile = { ...meanwhile, ...(cvv2 === '321' && secureForm) };
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

/** More than zero, with at most the decimals of its currency. */
function isFitAmount(amount: string, currency: string | undefined): boolean {
  const [whole, fraction = ''] = /^\d{1,12}(?:\.(\d+))?$/.exec(amount) ?? [];
  return whole !== undefined && fraction.length <= decimalsOf(currency) && Number(amount) > 0;
}

function stageOf({ serialNumber }: VerifiedRequest, change: Change, status: string): Stage {
  const { type } = change;
  const isFailed = ['declined', 'filtered', 'error'].includes(status);
  return {
    'serial-number': serialNumber,
    status,
    'order-stage': status === 'approved' && type !== undefined ? `${type}_approved` : undefined,
    'error-message': isFailed ? 'Set by the scenario, or by the CVV2' : undefined,
    'error-code': isFailed ? '9103' : undefined,
    'transaction-type': type,
    ...amountsOf(change, status),
  };
}

/**
 * docs/gateway-interface.md section 2.2: the initial amount never changes, and the other one may. That a return leaves the
 * rest of it is our choice.
 */
function amountsOf({ type, paid = {}, ...given }: Change, status: string) {
  const { amount: left, 'initial-amount': initial = left, 'total-reversal-amount': returned = '0' } = paid;
  const { amount = left, currency = paid['currency'] } = given;
  if (type !== 'reversal' || amount === undefined)
    return { amount, 'initial-amount': initial ?? amount, currency };
  const change = status === 'approved' ? Number(amount) : 0;
  const money = (units: number) => units.toFixed(decimalsOf(currency));
  return {
    'reversal-amount': amount,
    'total-reversal-amount': money(Number(returned) + change),
    amount: left && money(Number(left) - change),
    'initial-amount': initial,
    currency,
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
  const requested = parameter(request, 'by-request-sn');
  const notMade = (message: string, code: string) =>
    unresolved(...(ledger.problemOf(login, clientOrderId, requested) ?? [message, code]));
  const now = clock.now();
  if (order === 'unknown' || (order.foundFrom ?? now) > now) return notMade('Order not found', '9002');

  const stage =
    requested === undefined
      ? order.stages.at(-1)
      : order.stages.find((one) => one['serial-number'] === requested);
  if (stage === undefined) return notMade('No such request for this order', '9003');
  const isProcessing = stage === order.stages.at(-1) && (order.processingUntil ?? now) > now;
  const shown = isProcessing && order.meanwhile ? order.meanwhile : stage;
  const echo: Pair[] = requested === undefined ? [] : [['by-request-sn', requested]];
  const fields: Pair[] = [
    ['type', 'status-response'],
    ['serial-number', serialNumber],
    ...echo,
    ['merchant-order-id', order.clientOrderId],
    [`${scenario.product}-order-id`, order.orderId],
    ...Object.entries(shown).flatMap(([name, value]): Pair[] =>
      value === undefined || name === 'serial-number' ? [] : [[name, value]],
    ),
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
