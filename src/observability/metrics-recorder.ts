import { acceptsKey, isPaymentServerError, type RequestContext } from '../request-context.ts';
import { createAuditRecorder } from './audit-metrics.ts';
import { createKeyMetrics, type KeyMetrics, setOrRemove } from './key-metrics.ts';
import { type Labels, responsibleParty, statusLabel, toKnownLabel } from './labels.ts';
import type { Metrics } from './metric-definitions.ts';
import type { CertificateInUse, MetricsObserver } from './metrics-observer.ts';

const keySources: ReadonlySet<string> = new Set(['vault', 'directory']);

const certificateNames: Readonly<Record<CertificateInUse['role'], Record<'cert' | 'ca', string>>> = {
  listener: { cert: 'listener', ca: 'listener-client-ca' },
  vault: { cert: 'vault-client', ca: 'vault-ca' },
  gateway: { cert: 'gateway-client', ca: 'gateway-ca' },
};

/** The label `certificate`. */
export function certificateName({ role, part }: CertificateInUse): string {
  return part === 'crl' ? 'listener-client-crl' : certificateNames[role][part];
}

/** Turns events into metrics. @param labels returns the labels of the current configuration */
export function createMetricsRecorder(metrics: Metrics, labels: () => Labels): MetricsObserver {
  const keys = createKeyMetrics(metrics);
  return {
    connectionRejected: () => metrics.dropped.inc({}),
    logLineSuppressed: () => metrics.logSuppressed.inc({}),
    upstreamStarted: (environment) => metrics.inFlight.inc(labels().environment(environment)),
    upstreamFinished: (environment) => metrics.inFlight.dec(labels().environment(environment)),
    requestFinished(context) {
      countRequest(metrics, labels(), context);
      recordAcceptedKey(keys, context);
    },
    gatewayResponded({ environment, operation, status, seconds, clockSkew }) {
      const route = labels().route(environment, operation);
      metrics.gatewayResponses.inc({ ...route, status: statusLabel(status) });
      metrics.gatewayDuration.observe({ labels: route, value: seconds });
      if (clockSkew !== undefined) metrics.clockSkew.set(labels().environment(environment), clockSkew);
    },
    gatewayUnreachable({ environment, operation, cause }) {
      metrics.unreachable.inc({ ...labels().route(environment, operation), cause });
    },
    signed(method, seconds) {
      metrics.signatures.inc({ method });
      metrics.signing.observe({ labels: { method }, value: seconds });
    },
    logLinesDropped: (lines) => metrics.logLinesDropped.inc({}, lines),
    signingQueueChanged: (depth) => metrics.signingQueue.set({}, depth),
    configLoaded(successful, at) {
      metrics.configReloaded.set({}, successful ? 1 : 0);
      if (successful) metrics.configReloadedAt.set({}, at);
    },
    authorizationDecided: (caller, decision) =>
      metrics.decisions.inc({ ...labels().caller(caller), decision }),
    jwtVerified: (issuer, result) => metrics.jwtVerifications.inc({ ...labels().issuer(issuer), result }),
    jwtKeysFetched: (issuer, at) => metrics.jwtKeysFetched.set(labels().issuer(issuer), at),
    jwtKeysRemoved: (issuer) => metrics.jwtKeysFetched.remove(labels().issuer(issuer)),
    ...createAuditRecorder(metrics),
    ...certificateRecorder(metrics, labels),
    ...keyRecorder(metrics, keys, labels),
  };
}

function certificateRecorder(metrics: Metrics, labels: () => Labels) {
  const labelsOf = (certificate: CertificateInUse) => ({
    certificate: certificateName(certificate),
    ...labels().environment(certificate.environment),
  });
  return {
    certificateLoaded(certificate, { from, until }) {
      metrics.certificateStart.set(labelsOf(certificate), from / 1000);
      metrics.certificateExpiry.set(labelsOf(certificate), until / 1000);
    },
    certificateRemoved(user) {
      for (const part of ['cert', 'ca', 'crl'] as const) {
        metrics.certificateStart.remove(labelsOf({ ...user, part }));
        metrics.certificateExpiry.remove(labelsOf({ ...user, part }));
      }
    },
  } satisfies Partial<MetricsObserver>;
}

function keyRecorder(metrics: Metrics, keys: KeyMetrics, labels: () => Labels) {
  return {
    ...keys,
    keyLookup: (environment, result) =>
      metrics.cacheLookups.inc({ ...labels().environment(environment), result }),
    keyFetched: (source, seconds) =>
      metrics.keyFetch.observe({ labels: { source: toKnownLabel(keySources, source) }, value: seconds }),
    canarySent: (environment, result) =>
      metrics.canaries.inc({ ...labels().environment(environment), result }),
    loginsNotFound: (count) => metrics.loginsNotFound.set({}, count),
    keyLookInterval: (seconds) => metrics.keyLookInterval.set({}, seconds),
    loginsDenied: (logins) => metrics.deniedLogins.set({}, logins),
    cachedKeysExpire: (seconds) => setOrRemove(metrics.cachedKeysLeft, {}, seconds),
    keySourceUp: (up) => metrics.keySourceUp.set({}, up ? 1 : 0),
    loginFailed() {
      metrics.keySourceUp.set({}, 0);
      metrics.keyProblems.inc(labels().environment(undefined));
    },
    tokenExpiryChanged(at, leaseSeconds) {
      setOrRemove(metrics.tokenExpiry, {}, at);
      setOrRemove(metrics.tokenLease, {}, leaseSeconds);
    },
    keyProblem: (_problem, about) => metrics.keyProblems.inc(labels().environment(about?.environment)),
  } satisfies Partial<MetricsObserver>;
}

function countRequest(metrics: Metrics, labels: Labels, context: RequestContext): void {
  const {
    outcome,
    reason = 'none',
    rejection,
    gatewayResult,
    gatewayErrorCode,
    durations,
    traceId,
    traceSampled = false,
  } = context;
  const route = labels.route(context.environment, context.operation);
  const caller = labels.caller(context.caller);
  metrics.requests.inc({ ...route, ...caller, status: statusLabel(context.status), reason });
  metrics.outcomes.inc({ ...route, outcome, fault: responsibleParty(context) });
  if (rejection !== undefined) metrics.rejections.inc({ ...route, cause: rejection });
  if (gatewayResult !== undefined) metrics.results.inc({ ...route, result: gatewayResult });
  if (gatewayErrorCode !== undefined) metrics.errorCodes.inc({ ...route, code: gatewayErrorCode });
  if (isPaymentServerError(context)) metrics.paymentServerErrors.inc(route);
  if (durations.total !== undefined) {
    const exemplarLabels = traceId === undefined || !traceSampled ? {} : { trace_id: traceId };
    metrics.requestDuration.observe({ labels: route, value: durations.total, exemplarLabels });
  }
}

/** The signing version is the one that the gateway last accepted, not the newest. */
function recordAcceptedKey(keys: KeyMetrics, context: RequestContext): void {
  const { environment, login, keyKind, keyVersion, gatewayStatus = 500 } = context;
  if (!acceptsKey(gatewayStatus) || environment === undefined || login === undefined) return;
  if (keyKind === undefined || keyVersion === undefined) return;
  keys.recordAccepted({ environment, login }, keyKind, keyVersion);
}
