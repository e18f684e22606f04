import { type Reason, responsibleParty } from '../../errors.ts';
import { isPaymentServerError } from '../../gateway/response.ts';
import type { Rejection, RequestContext } from '../../request-context.ts';
import { isoTime } from '../../util/clock.ts';
import type { FailedRequest } from './schema.ts';

/** `reason` of our own errors, the cause of a 403 of the gateway, or another status of the gateway. */
export type FailureCause = Reason | Rejection | 'gateway-status';

/** Sections of deploy/runbook.md. `null`: there is none, since the caller has to act on it. */
export const runbookSections: Readonly<Record<FailureCause, string | null>> = {
  'method-not-allowed': '#invalid-request',
  'unsupported-media-type': '#invalid-request',
  'too-large': '#invalid-request',
  'malformed-form': '#invalid-request',
  'query-not-allowed': '#invalid-request',
  'reserved-parameter': '#invalid-request',
  'parameter-invalid': '#invalid-request',
  'login-missing': '#invalid-request',
  'login-conflict': '#invalid-request',
  'bad-request': '#invalid-request',
  'unknown-route': '#invalid-request',
  'request-timeout': '#incomplete-request',
  'caller-gone': '#incomplete-request',
  'caller-unknown': '#countersignauthorizationdenials',
  'caller-limit': '#countersignsaturated',
  'issuer-unavailable': '#countersignjwtkeysstale',
  'not-allowed': '#countersignauthorizationdenials',
  'web-page': '#invalid-request',
  'unknown-host': '#invalid-request',
  overloaded: '#countersignsaturated',
  'shutting-down': '#shutting-down',
  'key-source-unavailable': '#countersignkeysourcedown',
  'signing-unavailable': '#countersignsigningunavailable',
  'audit-unavailable': '#countersignauditunavailable',
  'key-missing': '#countersignkeymissing',
  'key-unusable': '#countersignkeyunusable',
  'key-rejected': '#countersigngatewayrejections',
  'gateway-unreachable': '#gateway-unreachable',
  'gateway-timeout': '#no-complete-gateway-response',
  'gateway-reset': '#no-complete-gateway-response',
  'gateway-reply-invalid': '#no-complete-gateway-response',
  internal: '#internal-error',
  'current-key': '#countersigngatewayrejections',
  'other-key': '#countersigngatewayrejections',
  'clock-skew': '#countersignclockskew',
  'gateway-status': null,
};

/** A server error for a payment leaves its outcome uncertain, whatever its status. */
export const paymentServerErrorSection = '#countersignpaymentservererror';

/** Whether Countersign or the gateway responded with an error, or there was no response. */
export function isFailed({ reason, gatewayStatus = 0 }: RequestContext): boolean {
  return reason !== undefined || gatewayStatus >= 400;
}

/** Copies what is shown, so that the rest of the request is not kept. @param at milliseconds since 1970 */
export function failureOf(context: RequestContext, at: number): FailedRequest {
  const { id: requestId, caller = null, environment = null, operation = null } = context;
  const { login = null, status = null, outcome } = context;
  const cause = causeOf(context);
  const runbookSection = isPaymentServerError(context) ? paymentServerErrorSection : runbookSections[cause];
  const route = { caller, environment, operation, login };
  return { at: isoTime(at), requestId, ...route, status, outcome, cause, runbookSection };
}

/** A request that failed although the caller did nothing wrong, other than by a 403 of the gateway. */
export function isOurFailure(context: RequestContext): boolean {
  return ['gateway', 'countersign'].includes(responsibleParty(context));
}

/** Whether its caller has to query what happened to a payment. */
export function isUncertainPayment(context: RequestContext): boolean {
  return isPaymentServerError(context) || (context.outcome === 'unknown' && context.readOnly === false);
}

/** `rejection` stays set if a retry got another response than the 403. */
export function causeOf({ reason, gatewayStatus, rejection }: RequestContext): FailureCause {
  if (reason !== undefined) return reason;
  return gatewayStatus === 403 ? (rejection ?? 'gateway-status') : 'gateway-status';
}
