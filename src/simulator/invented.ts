import type { Pair } from '../oauth1/parameters.ts';
import type { SimulatorContext } from './context.ts';
import { formReply, type SimulatorResponse } from './response.ts';
import { parameter, type VerifiedRequest } from './verified-request.ts';

/**
 * Transfer and pan-eligibility: the interface text shows how they are signed (section 4.3), and neither what
 * they require nor what they answer. Everything here is invented, and every reply says so.
 */

/**
 * A transfer is approved at once and becomes an order that a status query finds. Only the fields named here
 * are kept: no card number, name, expiry or CVV is ever stored.
 */
export function answerTransfer(
  call: VerifiedRequest,
  { scenario, ledger, clock }: SimulatorContext,
): SimulatorResponse {
  const endpoint = call.path['endpoint'] ?? '';
  const clientOrderId = parameter(call, 'client_orderid');
  if (!scenario.endpoints.includes(endpoint)) return refused(call, 'Unknown endpoint', '9004');
  if (clientOrderId === undefined) return refused(call, 'client_orderid is missing', '9001');
  const order = ledger.add({
    login: call.login,
    endpoint,
    clientOrderId,
    stages: [transferStage(call, clock())],
  });
  return formReply(
    [
      ['type', 'transfer-response'],
      ['serial-number', call.serialNumber],
      ['merchant-order-id', clientOrderId],
      [`${scenario.product}-order-id`, order.orderId],
    ],
    true,
  );
}

function transferStage(call: VerifiedRequest, now: number): Record<string, string> {
  const amount = parameter(call, 'amount');
  const currency = parameter(call, 'currency');
  return {
    'serial-number': call.serialNumber,
    status: 'approved',
    'order-stage': 'transfer_approved',
    'transaction-type': 'transfer',
    ...(amount === undefined ? {} : { amount, 'initial-amount': amount }),
    ...(currency === undefined ? {} : { currency }),
    'transaction-date': `${new Date(now).toISOString().slice(0, 19).replace('T', ' ')} UTC`,
  };
}

export function answerEligibility(call: VerifiedRequest): SimulatorResponse {
  return formReply(
    [
      ['type', 'pan-eligibility-response'],
      ['serial-number', call.serialNumber],
      ['client-order-id', parameter(call, 'client-order-id') ?? ''],
      ['eligible', 'true'],
    ],
    true,
  );
}

function refused(call: VerifiedRequest, message: string, code: string): SimulatorResponse {
  const fields: Pair[] = [
    ['type', 'transfer-response'],
    ['serial-number', call.serialNumber],
    ['merchant-order-id', parameter(call, 'client_orderid') ?? ''],
    ['status', 'error'],
    ['error-message', message],
    ['error-code', code],
  ];
  return formReply(fields, true);
}
