import type { Pair } from './form.ts';
import { errorResponse, formResponse, type SimulatorResponse } from './response.ts';
import type { Scenario, Stage } from './scenario-schema.ts';
import type { SimulatorState } from './state.ts';
import { parameter, type VerifiedRequest } from './verified-request.ts';

/**
 * docs/gateway-interface.md sections 2.2, 4.2 and 7. The order ID comes from `orderid` as in the parameter table, not from
 * `order_id` as in the sample.
 */
export function statusResponse(
  request: VerifiedRequest,
  { ledger, scenario, clock }: SimulatorState,
): SimulatorResponse {
  const clientOrderId = parameter(request, 'client_orderid');
  if (clientOrderId === undefined) return failed(request, 'client_orderid is missing', '9001');
  const order = ledger.find({
    login: request.login,
    endpoints: endpointsOf(request, scenario),
    clientOrderId,
    orderId: parameter(request, 'orderid'),
  });
  if (order === 'ambiguous') return failed(request, 'AMBIGUOUS_CLIENT_ORDER_ID', '124', false);
  const now = clock.now();
  if (order === 'unknown' || (order.foundFrom ?? now) > now)
    return failed(request, 'Order not found', '9002');

  const requested = parameter(request, 'by-request-sn');
  const stage = requested === undefined ? order.stages.at(-1) : ledger.stageAt(order, requested);
  if (stage === undefined) return failed(request, 'No such request for this order', '9003');
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

/** How a group query differs from a single one is not shown: here it covers all endpoints of the group. */
function endpointsOf(
  { path: { endpoint, endpointGroup = '' } }: VerifiedRequest,
  { groups }: Scenario,
): readonly string[] {
  if (endpoint !== undefined) return [endpoint];
  return (Object.hasOwn(groups, endpointGroup) ? groups[endpointGroup] : undefined) ?? [];
}

function failed(
  request: VerifiedRequest,
  message: string,
  code: string,
  undocumented?: boolean,
): SimulatorResponse {
  return errorResponse(request, 'status-response', message, code, undocumented);
}

/** A stage before its result is known. */
function processing(stage: Stage): Stage {
  const result = ['order-stage', 'transaction-date', 'error-message', 'error-code'];
  const known = Object.entries(stage).filter(([name]) => !result.includes(name));
  return { ...Object.fromEntries(known), status: 'processing' };
}
