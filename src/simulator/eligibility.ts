import { formResponse, type SimulatorResponse } from './response.ts';
import { parameter, type VerifiedRequest } from './verified-request.ts';

/**
 * The gateway's interface only shows how pan-eligibility is signed (docs/gateway-interface.md section 4.3). The response
 * is undocumented, and says so.
 */
export function eligibilityResponse(request: VerifiedRequest): SimulatorResponse {
  return formResponse(
    [
      ['type', 'pan-eligibility-response'],
      ['serial-number', request.serialNumber],
      ['client-order-id', parameter(request, 'client-order-id') ?? ''],
      ['eligible', 'true'],
    ],
    true,
  );
}
