import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { fromEnvironment, type ValidConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { createRoutes, type Routes } from '../gateway/router.ts';
import { createDecisionLog } from '../observability/decision-log.ts';
import type { LogDestination } from '../observability/log-destination.ts';
import { sampleRejections } from '../observability/logger.ts';
import { LoginRedactor } from '../observability/login-redactor.ts';
import type { MetricsObserver } from '../observability/metrics-observer.ts';
import { createPrometheus } from '../observability/prometheus.ts';
import { createStatusRecorder } from '../observability/status/recorder.ts';
import { createTlsPeers } from '../observability/tls-peers.ts';
import { Tracing, type TracingOptions } from '../observability/tracing/tracing.ts';
import { ConcurrencyLimiter } from '../proxy/concurrency-limiter.ts';
import { createListener, type Listener, type ListenerOptions, setLimits } from '../proxy/inbound/listener.ts';
import type { ListenerTls } from '../proxy/inbound/tls-handshakes.ts';
import { InflightRequests } from '../proxy/inflight-requests.ts';
import { MemoryBudget } from '../proxy/memory-budget.ts';
import type { TlsUser } from '../tls/files.ts';
import type { TlsMaterial } from '../tls/material.ts';
import { packageVersion } from '../util/package-info.ts';
import { type Admin, createAdmin } from './admin.ts';
import { type Audit, closingOnError, openAudit } from './audit.ts';
import { CertificateFiles, type Certificates, materialOf, type OnRenewed } from './certificates.ts';
import { listenOn } from './listen.ts';
import {
  fieldsForRestart,
  fitForListener,
  labelDomainOf,
  loginsIn,
  type Runtime,
  type RuntimeOptions,
  startRuntime,
} from './runtime.ts';
import { abort, shutDown } from './shutdown.ts';
import { createNonceGenerator, system } from './system.ts';
import { signingConcurrency } from './thread-pool.ts';

/** The running proxy with its two ports. */
export interface Service {
  readonly proxyUrl: string;
  readonly adminUrl: string;
  /**
   * Applies another configuration to new requests, except for the fields that require a restart.
   *
   * @returns the fields that differ from those the process started with, and require a restart
   * @throws Error for unreadable files; the current configuration stays active
   */
  reload(loaded: ValidConfig): Promise<readonly string[]>;
  /** Follows an audit file that was renamed. @throws Error if its key cannot be read; the previous one stays in use */
  reopenAudit(): Promise<void>;
  /** Sets the metric for whether the last loaded configuration is fully in effect. */
  configLoaded(successful: boolean): void;
  /**
   * Graceful shutdown. Resolves to whether all in-flight requests finished in time.
   *
   * @param skipDelay ends the shutdown delay when it resolves
   */
  stop(skipDelay: Promise<unknown>): Promise<boolean>;
  /**
   * After a crash: stops accepting requests and aborts all in-flight requests. Resolves when each one has its log
   * line.
   */
  abort(): Promise<void>;
}

interface Ports {
  readonly listener: Listener;
  readonly admin: Admin;
}

interface ClosedParts extends Pick<Ports, 'admin'> {
  readonly audit: Audit | undefined;
  readonly runtime: Runtime;
  readonly tracing: Tracing;
}

const minute = 60_000;
/** Milliseconds to send the last spans. */
const tracingTimeout = 2_000;
/** Milliseconds to write the last audit records. */
const auditTimeout = { stop: 2_000, abort: 500 };

/** Tests replace some of these. */
export type ServiceOptions = Pick<RuntimeOptions, 'log'> &
  Partial<Pick<RuntimeOptions, 'acceptUnknownTokens' | 'clock' | 'monotonic' | 'nonce' | 'random'>> & {
    /** The destination of the log; without it, dropped log lines are unknown. */
    readonly logDestination?: LogDestination;
    /** Milliseconds between two renderings of a page of the admin port; see admin.ts. */
    readonly renderInterval?: number;
    /** Milliseconds between checks of the certificate files. */
    readonly certificateCheckInterval?: number;
  };

/** @throws Error of `listen`, or for unreadable files */
export async function startService(loaded: ValidConfig, overrides: ServiceOptions): Promise<Service> {
  const { config } = loaded;
  const routes = createRoutes(config);
  const observers = createObservers(loaded, routes, overrides);
  const { redactor, recorder, prometheus, metrics, log } = observers;
  const certificates = new CertificateFiles({ log, metrics });
  const first = await certificates.prepare(config);
  certificates.use(first);
  const audit = await startAudit(loaded, { ...overrides, log, metrics });
  const useTls: OnRenewed = (...renewed) => useTlsMaterial(ports, runtime, ...renewed);
  const tlsFailed = (): void => void certificates.checkNow({ role: 'vault' }, useTls);
  const options = { ...createRuntimeOptions(config, overrides, observers, audit), tlsFailed };
  let runtime = await closingOnError(audit, auditTimeout.stop, () => startRuntime(routes, first, options));
  (await options.tracing.prepare(config.tracing))();
  let draining = false;
  const listener = createProxyListener(config, tlsOfPort('listener', first, config), options, () => runtime);
  const state = { readiness: () => runtime.readiness(draining), runtime: () => runtime };
  const shown = { ...overrides, ...options, prometheus, recorder, ...state };
  const ports = { listener, admin: createAdmin(config.admin, tlsOfPort('admin', first, config), shown) };
  const [proxyUrl, adminUrl] = await openPorts(config, ports).catch(async (error: unknown) => {
    await Promise.all([runtime.stop(), audit?.close(auditTimeout.stop)]);
    throw error;
  });
  const stopChecking = certificates.checkEvery(overrides.certificateCheckInterval ?? minute, useTls);
  return {
    proxyUrl,
    adminUrl,
    async reload({ config: next, digest: nextDigest }) {
      const prepared = await certificates.prepare(fitForListener(config, next));
      const applyTracing = await options.tracing.prepare(next.tracing);
      if (draining) throw new Error('the process is shutting down');
      redactor.allow(loginsIn(next));
      const nextRoutes = createRoutes(next);
      const started = startRuntime(nextRoutes, prepared, options, runtime);
      if (started.keys.source !== runtime.keys.source) recorder.keySourceReplaced();
      void runtime.stop(started);
      runtime = started;
      observers.reconfigure(nextRoutes, nextDigest);
      applyTracing();
      audit?.configApplied(nextDigest);
      certificates.use(prepared);
      updatePorts(ports, options.memory, next, prepared);
      return fieldsForRestart(config, next);
    },
    reopenAudit: async () => audit?.reopen(),
    configLoaded: (successful) => metrics.configLoaded(successful, options.clock() / 1000),
    async stop(skipDelay) {
      draining = true;
      const finished = await shutDown({ listener, ...options, ...runtime.config.proxy }, skipDelay);
      stopChecking();
      await close({ ...options, ...ports, audit, runtime });
      return finished;
    },
    async abort() {
      draining = true;
      await abort({ listener, ...options });
      await audit?.close(auditTimeout.abort);
    },
  };
}

/** Once no request is in flight. */
async function close({ audit, runtime, tracing, admin }: ClosedParts): Promise<void> {
  await Promise.all([audit?.close(auditTimeout.stop), tracing.stop(tracingTimeout)]);
  await runtime.stop();
  // Open until now, so that /readyz reports the shutdown.
  await admin.close();
}

function createObservers({ config, digest }: ValidConfig, routes: Routes, overrides: ServiceOptions) {
  const redactor = new LoginRedactor(loginsIn(config));
  const log = redactor.redacting(overrides.log);
  const decisions = createDecisionLog(log);
  const names = labelDomainOf(routes);
  const recorder = createStatusRecorder({ ...system, ...overrides, names, digest });
  const prometheus = createPrometheus({ version: packageVersion(), ...names });
  const metrics = redactor.redacting<MetricsObserver>(prometheus, recorder, decisions?.observer ?? {});
  const reconfigure = (next: Routes, nextDigest: string): void => {
    for (const observer of [prometheus, recorder]) observer.reconfigure(labelDomainOf(next));
    recorder.configApplied(nextDigest);
  };
  const observers = { redactor, log, recorder, prometheus, metrics, reconfigure };
  return { ...observers, ...(decisions === undefined ? {} : { decisions }) };
}

function createProxyListener(
  { proxy }: Config,
  tls: ListenerTls | undefined,
  options: RuntimeOptions,
  runtime: () => Runtime,
): Listener {
  return createListener(proxy, {
    ...options,
    handle: (request, response) => runtime().handle(request, response),
    tls,
    tlsObserver: options.tlsPeers.clients('listener'),
    connectionRejected: () => options.metrics.connectionRejected(),
    requestRejected: recordRejection(options),
  });
}

function openPorts({ proxy, admin }: Config, { listener, admin: adminPort }: Ports) {
  const schemeOf = ({ tls }: Config['proxy'] | Config['admin']) => (tls === undefined ? 'http' : 'https');
  return listenOn([listener.server, proxy, schemeOf(proxy)], [adminPort.server, admin, schemeOf(admin)]);
}

async function startAudit(
  { config: { audit }, digest }: ValidConfig,
  options: ServiceOptions & Pick<RuntimeOptions, 'metrics'>,
): Promise<Audit | undefined> {
  return audit && openAudit(audit, { ...system, ...options, digest });
}

/** What survives a reload of the configuration. */
function createRuntimeOptions(
  config: Config,
  { logDestination, ...overrides }: ServiceOptions,
  observers: ReturnType<typeof createObservers>,
  audit: Audit | undefined,
): Omit<RuntimeOptions, 'tlsFailed'> {
  const { log, metrics } = observers;
  logDestination?.watch({ dropped: (lines) => metrics.logLinesDropped(lines) });
  const monotonic = overrides.monotonic ?? system.monotonic;
  const sampled = sampleRejections(log, { monotonic, suppressed: () => metrics.logLineSuppressed() });
  return {
    ...system,
    nonce: createNonceGenerator(),
    signingConcurrency: signingConcurrency(fromEnvironment('UV_THREADPOOL_SIZE')),
    ...overrides,
    monotonic,
    ...observers,
    log: sampled,
    tlsPeers: createTlsPeers({ log: sampled, metrics, monotonic }),
    tracing: createTracing({ ...system, ...overrides, monotonic, log, metrics }),
    limiter: new ConcurrencyLimiter(),
    memory: new MemoryBudget(config.proxy.maxBufferedBytes),
    inflight: new InflightRequests(),
    logState: () => logDestination?.state() ?? { logLinesDropped: false, logStalled: false },
    isAuditUnavailable: () => audit?.isUnavailable() ?? false,
    ...(audit === undefined ? {} : { audit: audit.log }),
    newRequestId: () => randomUUID(),
    userAgent: `countersign/${packageVersion()}`,
  };
}

function createTracing(options: Omit<TracingOptions, 'version' | 'instance'>): Tracing {
  return new Tracing({ ...options, version: packageVersion(), instance: hostname() });
}

/** A request that was rejected before it reached the handler. */
function recordRejection({ log, metrics, audit }: RuntimeOptions): ListenerOptions['requestRejected'] {
  return (context) => {
    log.requestFinished(context);
    metrics.requestFinished(context);
    audit?.requestFinished(context);
  };
}

function useTlsMaterial(ports: Ports, runtime: Runtime, user: TlsUser, material: TlsMaterial): void {
  const { role } = user;
  if (role === 'listener' || role === 'admin') ports[role].reloadTls(tlsOf(material, role, runtime.config));
  else runtime.useTls(user, material);
}

/** Applies the settings of the two ports that can change without a restart. */
function updatePorts(ports: Ports, memory: MemoryBudget, config: Config, certificates: Certificates): void {
  memory.limit = config.proxy.maxBufferedBytes;
  setLimits(ports.listener, config.proxy);
  for (const role of ['listener', 'admin'] as const)
    ports[role].reloadTls(tlsOfPort(role, certificates, config));
}

function tlsOfPort(role: keyof Ports, certificates: Certificates, config: Config): ListenerTls | undefined {
  return tlsOf(materialOf(certificates, { role }), role, config);
}

function tlsOf(
  { cert, key, ca, crl }: TlsMaterial,
  role: keyof Ports,
  { proxy, admin }: Config,
): ListenerTls | undefined {
  const { tls } = role === 'listener' ? proxy : admin;
  if (cert === undefined || key === undefined || tls === undefined) return undefined;
  return {
    cert,
    key,
    minVersion: tls.minVersion,
    ...(ca === undefined ? {} : { clientCa: ca }),
    ...(crl === undefined ? {} : { clientCrl: crl }),
  };
}
