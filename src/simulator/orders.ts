import type { Pair } from './form.ts';
import { formResponse, type SimulatorResponse } from './response.ts';
import type { Scenario, Stage } from './scenario.ts';
import type { SimulatorState } from './state.ts';
import { orderIdOf, parameter, type VerifiedRequest } from './verified-request.ts';

/**
 * Approves a transfer at once, unless the scenario says otherwise; it becomes an order that a status query finds. Stores
 * only the fields named here: no card number, name, expiry or CVV. The gateway's interface only shows how transfers are
 * signed (docs/gateway-interface.md section 4.3), so every response is undocumented, and says so.
 */
export function transferResponse(
  request: VerifiedRequest,
  { scenario, ledger, clock }: SimulatorState,
): SimulatorResponse {
  const { login, path, serialNumber } = request;
  const { endpoint = '' } = path;
  const clientOrderId = orderIdOf(request);
  const failed = (message: string, code: string) => errorResponse(request, 'transfer', message, code);
  if (!scenario.endpoints.includes(endpoint)) return failed('Unknown endpoint', '9004');
  if (clientOrderId === undefined) return failed('client_orderid is missing', '9001');
  const currency = parameter(request, 'currency');
  if (!isFitCurrency(currency)) return failed('currency must be three capital letters', '9006');
  if (!isFitAmount(parameter(request, 'amount'), currency))
    return failed('amount must be a positive number such as 12.50', '9005');
  const now = clock.now();
  const rule = scenario.transfers.find(({ client_orderid }) => client_orderid === clientOrderId);
  const { orderId } = ledger.add({
    login,
    endpoint,
    clientOrderId,
    stages: [transferStage(request, rule?.status ?? 'approved', now)],
    foundFrom: rule && now + rule.foundAfterSeconds * 1000,
    processingUntil: rule && now + rule.processingSeconds * 1000,
  });
  return formResponse(
    [
      ['type', 'transfer-response'],
      ['serial-number', serialNumber],
      ['merchant-order-id', clientOrderId],
      [`${scenario.product}-order-id`, orderId],
    ],
    true,
  );
}

/** Currencies with three decimals (ISO 4217). */
const threeDecimals: ReadonlySet<string> = new Set(['BHD', 'IQD', 'JOD', 'KWD', 'LYD', 'OMR', 'TND']);

/** More than zero, with at most the decimals of its currency. A transfer without one is for other tests. */
function isFitAmount(amount = '1', currency = 'EUR'): boolean {
  const decimals = threeDecimals.has(currency) ? 3 : 2;
  return new RegExp(`^\\d{1,12}(\\.\\d{1,${decimals}})?$`).test(amount) && Number(amount) > 0;
}

/** docs/gateway-interface.md section 2.1. */
function isFitCurrency(currency = 'EUR'): boolean {
  return /^[A-Z]{3}$/.test(currency);
}

function transferStage(request: VerifiedRequest, status: string, now: number): Stage {
  const amount = parameter(request, 'amount');
  const currency = parameter(request, 'currency');
  return {
    'serial-number': request.serialNumber,
    status,
    ...(status === 'approved' && { 'order-stage': 'transfer_approved' }),
    ...(['declined', 'filtered', 'error'].includes(status) && {
      'error-message': 'Set by the scenario',
      'error-code': '9103',
    }),
    'transaction-type': 'transfer',
    ...(amount !== undefined && { amount, 'initial-amount': amount }),
    ...(currency !== undefined && { currency }),
    'transaction-date': `${new Date(now).toISOString().slice(0, 19).replace('T', ' ')} UTC`,
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
  const failed = (message: string, code: string) => errorResponse(request, 'status', message, code);
  if (clientOrderId === undefined) return failed('client_orderid is missing', '9001');
  const endpoints = endpointsOf(request, scenario);
  const order = ledger.find({ login, endpoints, clientOrderId, orderId: parameter(request, 'orderid') });
  if (order === 'ambiguous') return failed('AMBIGUOUS_CLIENT_ORDER_ID', documentedCode);
  const now = clock.now();
  if (order === 'unknown' || (order.foundFrom ?? now) > now) return failed('Order not found', '9002');

  const requested = parameter(request, 'by-request-sn');
  const stage = requested === undefined ? order.stages.at(-1) : ledger.stageAt(order, requested);
  if (stage === undefined) return failed('No such request for this order', '9003');
  // The documentation of the gateway does not have this status; its list of values is not complete.
  const isProcessing = (order.processingUntil ?? now) > now;
  const shown = isProcessing ? processing(stage) : stage;
  ledger.recordResponse(serialNumber, order, shown);
  const echo: Pair[] = requested === undefined ? [] : [['by-request-sn', requested]];
  const fields: Pair[] = [
    ['type', 'status-response'],
    ['serial-number', serialNumber],
    ...echo,
    ['merchant-order-id', order.clientOrderId],
    [`${scenario.product}-order-id`, order.orderId],
    ...Object.entries(shown).filter(([name]) => name !== 'serial-number'),
  ];
  return formResponse(fields, isProcessing);
}

/** How a group query differs from a single one is not shown: here it covers all endpoints of the group. */
function endpointsOf(
  { path: { endpoint, endpointGroup = '' } }: VerifiedRequest,
  { groups }: Scenario,
): readonly string[] {
  if (endpoint !== undefined) return [endpoint];
  return (Object.hasOwn(groups, endpointGroup) ? groups[endpointGroup] : undefined) ?? [];
}

/** A stage before its result is known. */
function processing(stage: Stage): Stage {
  const result = ['order-stage', 'transaction-date', 'error-message', 'error-code'];
  const known = Object.entries(stage).filter(([name]) => !result.includes(name));
  return { ...Object.fromEntries(known), status: 'processing' };
}

const documentedCode = '124';

/** The fields of an error are documented (docs/gateway-interface.md section 7); message and code are not, except one. */
function errorResponse(
  request: VerifiedRequest,
  type: 'status' | 'transfer',
  message: string,
  code: string,
): SimulatorResponse {
  const fields: Pair[] = [
    ['type', `${type}-response`],
    ['serial-number', request.serialNumber],
    ['merchant-order-id', orderIdOf(request) ?? ''],
    ['status', 'error'],
    ['error-message', message],
    ['error-code', code],
  ];
  return formResponse(fields, code !== documentedCode);
}
