import type { SimulatorContext } from './context.ts';
import type { Pair } from './form.ts';
import { formResponse, type SimulatorResponse } from './response.ts';
import type { Stage } from './scenario-schema.ts';
import { parameter, type VerifiedRequest } from './verified-request.ts';

/**
 * docs/gateway-interface.md sections 2.2, 4.2 and 7. The order ID comes from `orderid` as in the parameter table, not from
 * `order_id` as in the sample.
 */
export function statusResponse(
  request: VerifiedRequest,
  endpoints: readonly string[],
  { ledger, scenario, clock }: SimulatorContext,
): SimulatorResponse {
  const clientOrderId = parameter(request, 'client_orderid');
  if (clientOrderId === undefined) return unresolvedQuery(request, 'client_orderid is missing', '9001');
  const orderId = parameter(request, 'orderid');
  const order = ledger.find({ login: request.login, endpoints, clientOrderId, orderId });
  if (order === 'ambiguous') return formResponse(errorFields(request, 'AMBIGUOUS_CLIENT_ORDER_ID', '124'));
  const now = clock();
  if (order === 'unknown' || (order.foundFrom ?? now) > now)
    return unresolvedQuery(request, 'Order not found', '9002');

  const requested = parameter(request, 'by-request-sn');
  const stage = requested === undefined ? order.stages.at(-1) : ledger.stageAt(order, requested);
  if (stage === undefined) return unresolvedQuery(request, 'No such request for this order', '9003');
  // The documentation of the gateway does not have this status; its list of values is not complete.
  const isProcessing = (order.processingUntil ?? now) > now;
  const shown = isProcessing ? processing(stage) : stage;
  ledger.recordResponse(request.serialNumber, order, shown);
  const echo: Pair[] = requested === undefined ? [] : [['by-request-sn', requested]];
  const fields: Pair[] = [
    ['type', 'status-response'],
    ['serial-number', request.serialNumber],
    ...echo,
    ['merchant-order-id', order.clientOrderId],
    [`${scenario.product}-order-id`, order.orderId],
    ...Object.entries(shown).filter(([name]) => name !== 'serial-number'),
  ];
  return formResponse(fields, isProcessing);
}

/** A stage before its result is known. */
function processing(stage: Stage): Stage {
  const result = ['order-stage', 'transaction-date', 'error-message', 'error-code'];
  const known = Object.entries(stage).filter(([name]) => !result.includes(name));
  return { ...Object.fromEntries(known), status: 'processing' };
}

/** The fields are documented (docs/gateway-interface.md section 7); message and code are not. */
function unresolvedQuery(request: VerifiedRequest, message: string, code: string): SimulatorResponse {
  return formResponse(errorFields(request, message, code), true);
}

function errorFields(request: VerifiedRequest, message: string, code: string): Pair[] {
  return [
    ['type', 'status-response'],
    ['serial-number', request.serialNumber],
    ['merchant-order-id', parameter(request, 'client_orderid') ?? ''],
    ['status', 'error'],
    ['error-message', message],
    ['error-code', code],
  ];
}
