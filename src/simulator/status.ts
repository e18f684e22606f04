import type { Pair } from '../oauth1/parameters.ts';
import type { SimulatorContext } from './context.ts';
import { formReply, type SimulatorResponse } from './response.ts';
import { parameter, type VerifiedRequest } from './verified-request.ts';

/**
 * Interface sections 2.2, 4.2 and 7. `login` was verified; the order id is read from `orderid` as the table
 * has it, not from the `order_id` of its sample.
 */
export function answerStatus(
  call: VerifiedRequest,
  endpoints: readonly string[],
  { ledger, scenario }: SimulatorContext,
): SimulatorResponse {
  const clientOrderId = parameter(call, 'client_orderid');
  if (clientOrderId === undefined) return unresolved(call, 'client_orderid is missing', '9001');
  const orderId = parameter(call, 'orderid');
  const order = ledger.find({ login: call.login, endpoints, clientOrderId, orderId });
  if (order === 'ambiguous') return formReply(errorFields(call, 'AMBIGUOUS_CLIENT_ORDER_ID', '124'));
  if (order === 'unknown') return unresolved(call, 'Order not found', '9002');

  const requested = parameter(call, 'by-request-sn');
  const stage = requested === undefined ? order.stages.at(-1) : ledger.stageAt(order, requested);
  if (stage === undefined) return unresolved(call, 'No such request for this order', '9003');
  ledger.rememberReply(call.serialNumber, order, stage);
  const echo: Pair[] = requested === undefined ? [] : [['by-request-sn', requested]];
  return formReply([
    ['type', 'status-response'],
    ['serial-number', call.serialNumber],
    ...echo,
    ['merchant-order-id', order.clientOrderId],
    [`${scenario.product}-order-id`, order.orderId],
    ...Object.entries(stage).filter(([name]) => name !== 'serial-number'),
  ]);
}

/** The shape is shown (interface section 7), message and code are not: these are invented. */
function unresolved(call: VerifiedRequest, message: string, code: string): SimulatorResponse {
  return formReply(errorFields(call, message, code), true);
}

function errorFields(call: VerifiedRequest, message: string, code: string): Pair[] {
  return [
    ['type', 'status-response'],
    ['serial-number', call.serialNumber],
    ['merchant-order-id', parameter(call, 'client_orderid') ?? ''],
    ['status', 'error'],
    ['error-message', message],
    ['error-code', code],
  ];
}
