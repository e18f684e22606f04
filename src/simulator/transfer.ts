import { errorResponse, formResponse, type SimulatorResponse } from './response.ts';
import type { SimulatorState } from './state.ts';
import { parameter, type VerifiedRequest } from './verified-request.ts';

/**
 * Approves a transfer at once, unless the scenario says otherwise; it becomes an order that a status query finds. Stores
 * only the fields named here: no card number, name, expiry or CVV. The gateway's interface only shows how transfers are
 * signed (docs/gateway-interface.md section 4.3), so every response is undocumented, and says so.
 */
export function transferResponse(
  request: VerifiedRequest,
  { scenario, ledger, clock }: SimulatorState,
): SimulatorResponse {
  const endpoint = request.path['endpoint'] ?? '';
  const clientOrderId = parameter(request, 'client_orderid');
  if (!scenario.endpoints.includes(endpoint))
    return errorResponse(request, 'transfer-response', 'Unknown endpoint', '9004');
  if (clientOrderId === undefined)
    return errorResponse(request, 'transfer-response', 'client_orderid is missing', '9001');
  const now = clock.now();
  const rule = scenario.transfers.find(({ client_orderid }) => client_orderid === clientOrderId);
  const order = ledger.add({
    login: request.login,
    endpoint,
    clientOrderId,
    stages: [transferStage(request, rule?.status ?? 'approved', now)],
    foundFrom: rule && now + rule.foundAfterSeconds * 1000,
    processingUntil: rule && now + rule.processingSeconds * 1000,
  });
  return formResponse(
    [
      ['type', 'transfer-response'],
      ['serial-number', request.serialNumber],
      ['merchant-order-id', clientOrderId],
      [`${scenario.product}-order-id`, order.orderId],
    ],
    true,
  );
}

function transferStage(request: VerifiedRequest, status: string, now: number): Record<string, string> {
  const amount = parameter(request, 'amount');
  const currency = parameter(request, 'currency');
  return {
    'serial-number': request.serialNumber,
    status,
    ...(status === 'approved' ? { 'order-stage': 'transfer_approved' } : {}),
    ...(['declined', 'filtered', 'error'].includes(status)
      ? { 'error-message': 'Set by the scenario', 'error-code': '9103' }
      : {}),
    'transaction-type': 'transfer',
    ...(amount === undefined ? {} : { amount, 'initial-amount': amount }),
    ...(currency === undefined ? {} : { currency }),
    'transaction-date': `${new Date(now).toISOString().slice(0, 19).replace('T', ' ')} UTC`,
  };
}
