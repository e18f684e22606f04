import type { SimulatorContext } from './context.ts';
import type { Pair } from './form.ts';
import { formResponse, type SimulatorResponse } from './response.ts';
import { parameter, type VerifiedRequest } from './verified-request.ts';

/** The response of an operation that the scenario adds: undocumented, with the fields of the scenario if it has any. */
export function addedResponse(
  operation: string,
  request: VerifiedRequest,
  { scenario: { responses } }: SimulatorContext,
): SimulatorResponse {
  const orderId = parameter(request, 'client_orderid');
  const scripted = Object.hasOwn(responses, operation) ? responses[operation] : undefined;
  const fields: Pair[] =
    scripted === undefined ? [['type', `${operation}-response`]] : Object.entries(scripted);
  const order: Pair[] = orderId === undefined ? [] : [['merchant-order-id', orderId]];
  return formResponse([...fields, ['serial-number', request.serialNumber], ...order], true);
}
