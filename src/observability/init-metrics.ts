import type { JwtResult } from '../auth/jwt/verify.ts';
import type { CacheResult } from '../keys/key-source.ts';
import type { MethodName } from '../oauth1/methods.ts';
import type {
  AuthorizationDecision,
  GatewayErrorCode,
  GatewayResult,
  Rejection,
  RequestContext,
} from '../request-context.ts';
import { networkFailures } from '../util/network-failure.ts';
import type { LabelDomain, ResponsibleParty } from './labels.ts';
import type { Metrics } from './metric-definitions.ts';
import type { CanaryResult } from './metrics-observer.ts';

const results: readonly GatewayResult[] = ['approved', 'declined', 'error', 'filtered', 'other'];
const errorCodes: readonly GatewayErrorCode[] = ['124', 'other'];
const causes: readonly Rejection[] = ['current-key', 'other-key', 'clock-skew'];
const keyResults: readonly CacheResult[] = ['fresh', 'stale', 'fetched', 'missing', 'failed'];
const canaryResults: readonly CanaryResult[] = ['accepted', 'switched', 'rejected', 'failed'];
const decisions: readonly AuthorizationDecision[] = ['allowed', 'denied', 'would-deny'];
const jwtResults = Object.keys({
  accepted: true,
  'jwt-malformed': true,
  'jwt-header': true,
  'jwt-issuer': true,
  'jwt-algorithm': true,
  'jwt-key': true,
  'jwt-signature': true,
  'jwt-expired': true,
  'jwt-not-yet-valid': true,
  'jwt-audience': true,
  'jwt-claim': true,
  'jwt-no-caller': true,
  'jwt-ambiguous': true,
  'jwt-keys-unavailable': true,
} satisfies Record<JwtResult, true>);
const methodNames: readonly MethodName[] = ['HMAC-SHA1', 'RSA-SHA256'];
/** Gateway statuses that dashboards and alerts use. */
const statuses: readonly string[] = ['200', '403', '500', '502', '503', '504'];

/** All possible pairs of outcome and fault. */
const outcomes: readonly { readonly outcome: RequestContext['outcome']; readonly fault: ResponsibleParty }[] =
  [
    { outcome: 'answered', fault: 'none' },
    { outcome: 'answered', fault: 'gateway' },
    { outcome: 'not-sent', fault: 'caller' },
    { outcome: 'not-sent', fault: 'countersign' },
    { outcome: 'not-sent', fault: 'gateway' },
    { outcome: 'unknown', fault: 'countersign' },
    { outcome: 'unknown', fault: 'gateway' },
  ];

/**
 * Initializes series to 0 before their first event, because `rate()` and `increase()` miss the first increment of a
 * new series. Not for labels with too many values: callers by status, logins.
 */
export function initializeSeries(
  metrics: Metrics,
  { environments, callers, issuers = [] }: LabelDomain,
): void {
  for (const [environment, { operations, payments = [], maxInFlight }] of Object.entries(environments)) {
    metrics.inFlightLimit.set({ environment }, maxInFlight);
    metrics.inFlight.inc({ environment }, 0);
    metrics.keyProblems.inc({ environment }, 0);
    for (const result of canaryResults) metrics.canaries.inc({ environment, result }, 0);
    for (const result of keyResults) metrics.cacheLookups.inc({ environment, result }, 0);
    for (const operation of operations) initializeRoute(metrics, { environment, operation });
    for (const operation of payments) metrics.paymentServerErrors.inc({ environment, operation }, 0);
  }
  for (const caller of callers) {
    for (const decision of decisions) metrics.decisions.inc({ caller, decision }, 0);
  }
  for (const issuer of issuers) {
    // Unlike `set`, leaves the time of a fetch before a reload.
    metrics.jwtKeysFetched.inc({ issuer }, 0);
    for (const result of jwtResults) metrics.jwtVerifications.inc({ issuer, result }, 0);
  }
  metrics.keyProblems.inc({ environment: 'none' }, 0);
  metrics.keyLookInterval.set({}, 1);
  for (const method of methodNames) metrics.signatures.inc({ method }, 0);
}

function initializeRoute(metrics: Metrics, route: { environment: string; operation: string }): void {
  for (const pair of outcomes) metrics.outcomes.inc({ ...route, ...pair }, 0);
  for (const cause of causes) metrics.rejections.inc({ ...route, cause }, 0);
  for (const status of statuses) metrics.gatewayResponses.inc({ ...route, status }, 0);
  for (const cause of networkFailures) metrics.unreachable.inc({ ...route, cause }, 0);
  for (const result of results) metrics.results.inc({ ...route, result }, 0);
  for (const code of errorCodes) metrics.errorCodes.inc({ ...route, code }, 0);
}
