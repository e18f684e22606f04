import { STATUS_CODES } from 'node:http';
import { errorTable, responsibleParty } from '../errors.ts';
import { isPaymentServerError, isRejection } from '../gateway/response.ts';
import type { Routes } from '../gateway/router.ts';
import type { KeyRing } from '../keys/ring.ts';
import { tlsPolicy } from '../net/tls-policy.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import type { RequestContext } from '../request-context.ts';
import type { EventObserver, TlsEnd } from './events.ts';
import { redactedLogin } from './login-redactor.ts';
import type { GaugeOf, Metrics } from './metric-definitions.ts';

/** A number holds 53 bits exactly, which are 13 hex digits; 12 are whole bytes. */
const headDigits = 12;

type KeyLabels = { environment: string; login: string; kind: KeyKind };

const kinds: readonly KeyKind[] = ['control_key', 'private_key'];

const maxLogins = 1000;

const directions = ['newer', 'older'] as const;

const keySources: ReadonlySet<string> = new Set(['vault', 'directory']);

/** Turns events into metrics. */
export function createMetricsRecorder(metrics: Metrics, labels: Labels): EventObserver {
  const countLogin = createLoginCounter(metrics, labels);
  return {
    connectionRejected: () => metrics.dropped.inc({}),
    logLineSuppressed: () => metrics.logSuppressed.inc({}),
    requestFinished(context) {
      countRequest(metrics, labels, context);
      countLogin(context);
    },
    gatewayResponded({ environment, operation, status, seconds, clockSkew }) {
      const route = labels.route(environment, operation);
      metrics.gatewayResponses.inc({ ...route, status: statusLabel(status) });
      metrics.gatewayDuration.observe({ labels: route, value: seconds });
      if (clockSkew !== undefined) metrics.clockSkew.set(labels.environment(environment), clockSkew);
    },
    gatewayUnreachable({ environment, operation, cause }) {
      metrics.unreachable.inc({ ...labels.route(environment, operation), cause });
    },
    signed: (method, value) => metrics.signing.observe({ labels: { method }, value }),
    spansCounted: (result, count) => metrics.spans.inc({ result }, count),
    signingQueueChanged: (depth) => metrics.signingQueue.set({}, depth),
    configLoaded: (problem) => metrics.configReloaded.set({}, problem === undefined ? 1 : 0),
    authorizationDecided: (caller, decision) => metrics.decisions.inc({ ...labels.caller(caller), decision }),
    jwtVerified: (issuer, result) => metrics.jwtVerifications.inc({ ...labels.issuer(issuer), result }),
    auditRecordsWritten({ sequence, mac }) {
      // In one turn of the event loop, so that a scrape has both of the same record.
      metrics.auditSequence.set({}, sequence);
      metrics.auditHead.set({}, Number.parseInt(mac.slice(0, headDigits), 16));
    },
    auditRecordsLost: (count) => metrics.auditLost.inc({}, count),
    auditRecordsOmitted: (count) => metrics.auditOmitted.inc({}, count),
    auditUp: (up) => metrics.auditUp.set({}, up ? 1 : 0),
    claimMade: (environment, value) =>
      metrics.claimDuration.observe({ labels: labels.environment(environment), value }),
    claimStoreUp: (up) => metrics.claimStoreUp.set({}, up ? 1 : 0),
    ...tlsRecorder(metrics, labels),
    ...keyRecorder(metrics, labels),
  };
}

/** Of the versions and suites there are no others than those of the policy. */
const versions: ReadonlySet<string> = new Set(['TLSv1.2', 'TLSv1.3']);
const ciphers: ReadonlySet<string> = new Set(tlsPolicy.ciphers.split(':'));

function tlsRecorder(metrics: Metrics, labels: Labels) {
  const labelsOf = ({ role, environment }: TlsEnd) => ({ role, ...labels.environment(environment) });
  return {
    tlsConnected: (end, { version, cipher }) =>
      metrics.tlsConnections.inc({
        ...labelsOf(end),
        version: toKnownLabel(versions, version),
        cipher: toKnownLabel(ciphers, cipher),
      }),
    tlsFailed: (end, problem) => metrics.tlsFailures.inc({ ...labelsOf(end), problem }),
  } satisfies Partial<EventObserver>;
}

function keyRecorder(metrics: Metrics, labels: Labels) {
  return {
    ...keyRingRecorder(metrics),
    keyLookup: (environment, result) =>
      metrics.cacheLookups.inc({ ...labels.environment(environment), result }),
    keyFetched: (source, seconds) =>
      metrics.keyFetch.observe({ labels: { source: toKnownLabel(keySources, source) }, value: seconds }),
    transitSigned: (environment, result, value) =>
      metrics.transitSigning.observe({ labels: { ...labels.environment(environment), result }, value }),
    loginsNotFound: (count) => metrics.loginsNotFound.set({}, count),
    keySourceReplaced: () => metrics.deniedLogins.set({}, 0),
    loginsDenied: (logins) => metrics.deniedLogins.set({}, logins),
    cachedKeysExpire: (seconds) => setOrRemove(metrics.cachedKeysLeft, {}, seconds),
    keySourceUp: (up) => metrics.keySourceUp.set({}, up ? 1 : 0),
    loginFailed() {
      metrics.keySourceUp.set({}, 0);
      metrics.keyProblems.inc(labels.environment(undefined));
    },
    tokenExpiryChanged(at, leaseSeconds) {
      setOrRemove(metrics.tokenExpiry, {}, at);
      setOrRemove(metrics.tokenLease, {}, leaseSeconds);
    },
    keyProblem: (_problem, about) => metrics.keyProblems.inc(labels.environment(about?.environment)),
  } satisfies Partial<EventObserver>;
}

function countRequest(metrics: Metrics, labels: Labels, context: RequestContext): void {
  const { outcome, reason = 'none', rejection, gatewayResult, callback } = context;
  const { orderMismatch: field, durations, traceId, traceSampled = false } = context;
  const route = labels.route(context.environment, context.operation);
  const caller = labels.caller(context.caller);
  metrics.requests.inc({ ...route, ...caller, status: statusLabel(context.status), reason });
  metrics.outcomes.inc({ ...route, outcome, fault: responsibleParty(context) });
  if (callback !== undefined)
    metrics.callbacks.inc({ ...labels.environment(context.environment), result: callback });
  if (rejection !== undefined) metrics.rejections.inc({ ...route, cause: rejection });
  if (gatewayResult !== undefined) metrics.results.inc({ ...route, result: gatewayResult });
  if (field !== undefined) metrics.orderMismatches.inc({ ...route, field });
  if (isPaymentServerError(context)) metrics.paymentServerErrors.inc(route);
  if (durations.total !== undefined) {
    const exemplarLabels = traceId === undefined || !traceSampled ? {} : { trace_id: traceId };
    metrics.requestDuration.observe({ labels: route, value: durations.total, exemplarLabels });
  }
}

export const loginResults = ['rejected', 'no-key', 'other'] as const;

/** Counts requests by login. Only a login of which the gateway got a request has a name: callers may send any. */
function createLoginCounter({ loginRequests }: Metrics, labels: Labels) {
  const named = new Set<string>();
  return ({ environment, login, reason, gatewayStatus }: RequestContext): void => {
    if (login === undefined) return;
    const id = `${environment}/${login}`;
    if (gatewayStatus !== undefined && login !== redactedLogin && named.size < maxLogins && !named.has(id)) {
      named.add(id);
      for (const result of loginResults)
        loginRequests.inc({ ...labels.environment(environment), login, result }, 0);
    }
    const hasNoKey = reason === 'key-missing' || reason === 'key-unusable';
    const otherwise = isRejection(gatewayStatus ?? 0) ? 'rejected' : 'other';
    loginRequests.inc({
      ...labels.environment(environment),
      login: named.has(id) ? login : 'other',
      result: hasNoKey ? 'no-key' : otherwise,
    });
  };
}

/** The metrics that name a login: only for key rings in use, and only for a limited number of them. */
function keyRingRecorder(metrics: Metrics) {
  /** The version that signs, by {@link seriesId}. */
  const shown = new Map<string, number | undefined>();
  const { keyVersion, keySigningVersion, keyAcceptedVersion, keyCreated, keyUnusable, fallbacks } = metrics;
  const gauges = [keyVersion, keySigningVersion, keyAcceptedVersion, keyCreated, keyUnusable];

  function setSeries(labels: KeyLabels, entries: KeyRing): void {
    const id = seriesId(labels);
    const keys = entries.filter((entry) => 'key' in entry);
    const createdAt = keys[0]?.createdAt?.getTime();
    if (!shown.has(id)) for (const to of directions) fallbacks.inc({ ...labels, to }, 0);
    // An unusable version that a newer one replaced needs no action, although the ring keeps it for a while.
    const unusable = entries.filter((entry) => !('key' in entry) && entry.supersededAt === undefined);
    keyUnusable.set(labels, unusable.length);
    setOrRemove(keyVersion, labels, keys[0]?.version);
    setOrRemove(keyCreated, labels, createdAt && createdAt / 1000);
    // The current key signs on while a newer one waits.
    const isCurrent = keys.some(({ version }) => version === shown.get(id));
    if (!isCurrent) setSigning(labels, keys[0]?.version);
  }

  function setSigning(labels: KeyLabels, version: number | undefined): void {
    shown.set(seriesId(labels), version);
    setOrRemove(keySigningVersion, labels, version);
  }

  function removeSeries(labels: KeyLabels): void {
    if (!shown.delete(seriesId(labels))) return;
    for (const gauge of gauges) gauge.remove(labels);
    for (const to of directions) fallbacks.remove({ ...labels, to });
  }

  return {
    keyRingUpdated({ environment, login }, ring = []) {
      // All such logins would share one series.
      if (login === redactedLogin) return;
      for (const kind of kinds) {
        const labels = { environment, login, kind };
        const entries = ring.filter((entry) => entry.kind === kind);
        const hasRoom = shown.has(seriesId(labels)) || shown.size < maxLogins * kinds.length;
        if (entries.length === 0) removeSeries(labels);
        else if (hasRoom) setSeries(labels, entries);
      }
    },
    currentKeyChanged({ environment, login }, kind, from, to) {
      const labels = { environment, login, kind };
      if (!shown.has(seriesId(labels))) return;
      fallbacks.inc({ ...labels, to: to > from ? 'newer' : 'older' });
      setSigning(labels, to);
    },
    keyAccepted({ environment, login }, kind, version) {
      const labels = { environment, login, kind };
      if (shown.has(seriesId(labels))) keyAcceptedVersion.set(labels, version);
    },
  } satisfies Partial<EventObserver>;
}

/** None of the three contains a slash. */
function seriesId({ environment, login, kind }: KeyLabels): string {
  return `${environment}/${login}/${kind}`;
}

function setOrRemove<Name extends string>(
  gauge: GaugeOf<Name>,
  labels: Record<Name, string>,
  value: number | undefined,
): void {
  if (value === undefined) gauge.remove(labels);
  else gauge.set(labels, value);
}

/** A configuration with its operations. */
export type ConfiguredNames = Pick<Routes, 'config' | 'operations'>;

/** The configured names, which alone may be label values, whatever a request contains. */
export class Labels {
  readonly #environments = new Set<string>();
  readonly #operations = new Set<string>();
  readonly #callers = new Set<string>();
  readonly #issuers = new Set<string>();

  /** Adds the names of a configuration. Earlier ones stay valid, since requests in flight may still use them. */
  allow({ config, operations }: ConfiguredNames): void {
    for (const [environment, list] of operations) {
      this.#environments.add(environment);
      for (const { name } of list) this.#operations.add(name);
    }
    for (const { name } of config.callers) this.#callers.add(name);
    for (const issuer of Object.keys(config.jwtIssuers)) this.#issuers.add(issuer);
  }

  /** All that were ever configured. */
  environments(): Iterable<string> {
    return this.#environments;
  }

  readonly environment = (name?: string) => ({ environment: toKnownLabel(this.#environments, name) });
  readonly caller = (name?: string) => ({ caller: toKnownLabel(this.#callers, name) });
  readonly issuer = (name?: string) => ({ issuer: toKnownLabel(this.#issuers, name) });
  readonly route = (environment?: string, operation?: string) => ({
    ...this.environment(environment),
    operation: toKnownLabel(this.#operations, operation),
  });
}

/** `none` if absent, `other` if not in the set. */
function toKnownLabel(known: ReadonlySet<string>, value: string | undefined): string {
  if (value === undefined) return 'none';
  return known.has(value) ? value : 'other';
}

const statuses: ReadonlySet<string> = new Set([
  ...Object.keys(STATUS_CODES),
  ...Object.values(errorTable).map(({ status }) => String(status)),
]);

/** A registered HTTP status, or one that Countersign uses. */
function statusLabel(status: number | undefined): string {
  return toKnownLabel(statuses, status === undefined ? undefined : String(status));
}
