import { setImmediate as nextTurn } from 'node:timers/promises';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { jwtProblems } from '../auth/jwt/jwt-error.ts';
import type { ResponsibleParty } from '../errors.ts';
import { cacheResults, transitResults } from '../keys/key-source.ts';
import { networkFailures } from '../net/network-failure.ts';
import type { Validity } from '../net/tls-material.ts';
import { tlsProblems } from '../net/tls-observer.ts';
import type { MethodName } from '../oauth1/methods.ts';
import {
  authorizationDecisions,
  callbackResults,
  gatewayResults,
  orderMismatches,
  type RequestContext,
  rejections,
} from '../request-context.ts';
import { spanResults } from './events.ts';
import { createMetrics, type MetricFactory, type Metrics } from './metric-definitions.ts';
import { type ConfiguredNames, createMetricsRecorder, Labels, loginResults } from './metrics-recorder.ts';
import type { Page } from './shared-page.ts';

const methodNames: readonly MethodName[] = ['HMAC-SHA1', 'RSA-SHA256', 'SHA1-control'];

/** Gateway statuses that dashboards and alerts use. */
const statuses: readonly string[] = ['200', '401', '403', '500', '502', '503', '504'];

/** All possible faults of each outcome. */
const faults: Readonly<Record<RequestContext['outcome'], readonly ResponsibleParty[]>> = {
  answered: ['none', 'gateway'],
  'not-sent': ['caller', 'countersign', 'gateway'],
  unknown: ['caller', 'countersign', 'gateway'],
};

export type Prometheus = ReturnType<typeof createPrometheus>;

interface PrometheusOptions {
  readonly routes: ConfiguredNames;
  readonly version: string;
}

/** A certificate of ours, the CAs we trust for a peer, or the listener's revocation lists. */
export interface CertificateInUse extends Validity {
  /** Why its files, which were replaced, cannot be used. */
  readonly problem?: string | undefined;
  /** The label `certificate`. */
  readonly name: string;
  /** Absent for those that are not specific to an environment. */
  readonly environment?: string | undefined;
}

/** What is not counted, but read from where it is known whenever the page is rendered. */
export interface Readings {
  /** Requests to an environment in flight. */
  readonly inFlight: (environment: string) => number;
  readonly certificates: readonly CertificateInUse[];
  /** When the keys of each JWT issuer were fetched last, in milliseconds since 1970; 0 if they never were. */
  readonly jwtKeysFetchedAt: ReadonlyMap<string, number>;
  /** Since the start. */
  readonly logLinesDropped: number;
}

type SourceRegistry = Registry<typeof Registry.OPENMETRICS_CONTENT_TYPE>;

/** prom-client's gauges that are named like counters; `promtool check metrics` rejects them. */
const misnamed = ['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`);

/** The last line of an OpenMetrics page. */
const endOfMetrics = '# EOF\n';

/** The metrics of one process, in a separate registry. */
export function createPrometheus({ routes, version }: PrometheusOptions) {
  // prom-client accepts exemplars only in a registry of this type; render() produces both formats from it.
  const registry: SourceRegistry = new Registry<typeof Registry.OPENMETRICS_CONTENT_TYPE>();
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  const metrics = createMetrics(metricFactory(registry));
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  metrics.buildInfo.set({ version, node_version: process.version }, 1);
  for (const gauge of [metrics.signingQueue, metrics.loginsNotFound, metrics.deniedLogins]) gauge.set({}, 0);
  const labels = new Labels();
  const reconfigure = (next: ConfiguredNames): void => {
    labels.allow(next);
    initializeSeries(metrics, next);
  };
  reconfigure(routes);
  return {
    ...createMetricsRecorder(metrics, labels),
    /** The metrics page in the Prometheus text format, or in OpenMetrics with trace ids as exemplars. */
    page(openMetrics: boolean, readings: Readings): Promise<Page> {
      setReadings(metrics, labels.environments(), readings);
      return render(registry, openMetrics);
    },
    /**
     * Adds the names of a reloaded configuration. Counters continue, and earlier names remain valid labels: in-flight
     * requests still use them.
     */
    reconfigure,
  };
}

function setReadings(
  metrics: Metrics,
  environments: Iterable<string>,
  { inFlight, certificates, jwtKeysFetchedAt, logLinesDropped }: Readings,
): void {
  for (const environment of environments) metrics.inFlight.set({ environment }, inFlight(environment));
  const { certificateStart, certificateExpiry, jwtKeysFetched } = metrics;
  for (const gauge of [certificateStart, certificateExpiry, jwtKeysFetched]) gauge.reset();
  for (const { name: certificate, environment = 'none', from, until } of certificates) {
    certificateStart.set({ certificate, environment }, from / 1000);
    certificateExpiry.set({ certificate, environment }, until / 1000);
  }
  for (const [issuer, at] of jwtKeysFetchedAt) jwtKeysFetched.set({ issuer }, at / 1000);
  metrics.logLinesDropped.reset();
  metrics.logLinesDropped.inc({}, logLinesDropped);
}

function metricFactory(registry: SourceRegistry): MetricFactory {
  const define = <Name extends string>(name: string, help: string, labelNames: Name[] = []) => ({
    registers: [registry],
    name: `countersign_${name}`,
    help,
    labelNames,
  });
  return {
    counter: (...definition) => new Counter(define(...definition)),
    gauge(name, help, labels) {
      const gauge = new Gauge(define(name, help, labels));
      // It would start at 0, which is a wrong value for most of those without labels.
      if (labels === undefined) gauge.remove({});
      return gauge;
    },
    histogram: (name, help, labels, buckets) =>
      new Histogram<string>({ ...define(name, help, labels), buckets, enableExemplars: true }),
  };
}

/**
 * Renders views of the metrics in a registry of the requested format: prom-client 15 permanently removes `_total` from
 * the name of a counter that it renders as OpenMetrics. One metric in each turn of the event loop: with a thousand logins
 * all of them take 100 ms.
 */
async function render(source: SourceRegistry, openMetrics: boolean): Promise<Page> {
  const { OPENMETRICS_CONTENT_TYPE, PROMETHEUS_CONTENT_TYPE } = Registry;
  const contentType = openMetrics ? OPENMETRICS_CONTENT_TYPE : PROMETHEUS_CONTENT_TYPE;
  const parts: string[] = [];
  for (const metric of source.getMetricsAsArray()) {
    const view = new Registry<typeof contentType>();
    view.setContentType(contentType);
    view.registerMetric(Object.create(metric));
    const part = await view.metrics();
    parts.push(openMetrics ? part.slice(0, -endOfMetrics.length) : part);
    await nextTurn();
  }
  const body = openMetrics ? `${parts.join('')}${endOfMetrics}` : parts.join('\n');
  return { contentType, body };
}

/**
 * Initializes series to 0 before their first event, because `rate()` and `increase()` miss the first increment of a
 * new series. Not for labels with too many values: callers by status, logins.
 */
export function initializeSeries(metrics: Metrics, { config, operations: table }: ConfiguredNames): void {
  const { environments, callers, jwtIssuers, keys, payments } = config;
  const mounts = keys.source === 'vault' ? (keys.vault.transit?.mounts ?? {}) : {};
  for (const [environment, { maxInFlight, egressProxy }] of Object.entries(environments)) {
    metrics.inFlightLimit.set({ environment }, maxInFlight);
    metrics.keyProblems.inc({ environment }, 0);
    // Not the connections: most of their combinations never occur.
    for (const problem of tlsProblems) metrics.tlsFailures.inc({ role: 'gateway', environment, problem }, 0);
    if (payments.once !== undefined) metrics.claimDuration.zero({ environment });
    if (Object.hasOwn(mounts, environment))
      for (const result of transitResults) metrics.transitSigning.zero({ environment, result });
    for (const result of callbackResults) metrics.callbacks.inc({ environment, result }, 0);
    for (const result of loginResults) metrics.loginRequests.inc({ environment, login: 'other', result }, 0);
    for (const result of cacheResults) metrics.cacheLookups.inc({ environment, result }, 0);
    const failures = networkFailures(egressProxy !== undefined);
    for (const { name: operation, readOnly } of table.get(environment) ?? []) {
      initializeRoute(metrics, { environment, operation }, failures);
      // By it an alert knows the operations that are payments.
      if (!readOnly) metrics.paymentServerErrors.inc({ environment, operation }, 0);
    }
  }
  for (const { name: caller } of callers) {
    for (const decision of authorizationDecisions) metrics.decisions.inc({ caller, decision }, 0);
  }
  for (const issuer of Object.keys(jwtIssuers)) {
    for (const result of ['accepted', ...jwtProblems]) metrics.jwtVerifications.inc({ issuer, result }, 0);
  }
  metrics.keyProblems.inc({ environment: 'none' }, 0);
  for (const role of ['listener', 'admin', 'vault', 'jwt-issuer'] as const) {
    for (const problem of tlsProblems) metrics.tlsFailures.inc({ role, environment: 'none', problem }, 0);
  }
  for (const result of spanResults) metrics.spans.inc({ result }, 0);
  for (const method of methodNames) metrics.signing.zero({ method });
}

function initializeRoute(
  metrics: Metrics,
  route: { environment: string; operation: string },
  failures: readonly string[],
): void {
  for (const [outcome, parties] of Object.entries(faults)) {
    for (const fault of parties) metrics.outcomes.inc({ ...route, outcome, fault }, 0);
  }
  for (const cause of rejections) metrics.rejections.inc({ ...route, cause }, 0);
  for (const status of statuses) metrics.gatewayResponses.inc({ ...route, status }, 0);
  for (const cause of failures) metrics.unreachable.inc({ ...route, cause }, 0);
  for (const field of orderMismatches) metrics.orderMismatches.inc({ ...route, field }, 0);
  for (const result of gatewayResults) metrics.results.inc({ ...route, result }, 0);
}
