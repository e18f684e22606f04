import type { Reason } from '../../errors.ts';
import type { Rejection } from '../../request-context.ts';

/** `reason` of our own errors, the cause of a rejection of the gateway, or another status of the gateway. */
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
  'head-too-large': '#invalid-request',
  pipelined: '#invalid-request',
  'unknown-route': '#invalid-request',
  'request-timeout': '#incomplete-request',
  'caller-gone': '#incomplete-request',
  'caller-unknown': '#countersignauthorizationdenials',
  'caller-limit': '#caller-limit',
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

/** Of the cause of a failure; `undefined`: it has none. */
export function sectionOf(cause: string): string | undefined {
  const known: Readonly<Record<string, string | null>> = runbookSections;
  return Object.hasOwn(known, cause) ? (known[cause] ?? undefined) : undefined;
}

/** A server error for a payment leaves its outcome uncertain, whatever its status. */
export const paymentServerErrorSection = '#countersignpaymentservererror';
