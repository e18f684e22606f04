import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { Config } from '../config/schema.ts';
import { type AdminAppOptions, createAdminApp } from '../observability/admin-app.ts';
import { createAdminServer } from '../observability/admin-listener.ts';
import type { LogDestination } from '../observability/log-destination.ts';
import { sampleRejections } from '../observability/log-sampling.ts';
import { LoginRedactor } from '../observability/login-redactor.ts';
import type { MetricsObserver } from '../observability/metrics-observer.ts';
import { createPrometheus, type Prometheus } from '../observability/prometheus.ts';
import { ConcurrencyLimiter } from '../proxy/concurrency-limiter.ts';
import { ConnectionTracker } from '../proxy/inbound/connection-tracker.ts';
import {
  createListener,
  type Listener,
  type ListenerOptions,
  type ListenerTls,
  setLimits,
} from '../proxy/inbound/listener.ts';
import { InflightRequests } from '../proxy/inflight-requests.ts';
import { MemoryBudget } from '../proxy/memory-budget.ts';
import type { TlsUser } from '../tls/files.ts';
import type { TlsMaterial } from '../tls/material.ts';
import { packageVersion } from '../util/package-info.ts';
import { shareTurn } from '../util/share-turn.ts';
import { CertificateFiles, type Certificates, materialOf } from './certificates.ts';
import { closeServer, listenOn } from './listen.ts';
import { createNonceGenerator } from './nonce.ts';
import { fieldsForRestart } from './restart-fields.ts';
import { labelDomainOf, loginsIn, type Runtime, type RuntimeOptions, startRuntime } from './runtime.ts';
import { abort, shutDown } from './shutdown.ts';

/** The proxy and its operations port, listening. */
export interface Service {
  readonly proxyUrl: string;
  readonly adminUrl: string;
  /**
   * Takes another configuration for the requests to come: all of it but the fields that only a restart can change.
   *
   * @returns the fields that differ from those the process started with, and need a restart
   * @throws Error for files that cannot be read; the running configuration stays
   */
  reload(config: Config): Promise<readonly string[]>;
  /** Shows whether all of the configuration that was loaded last is in effect. */
  configLoaded(successful: boolean): void;
  /**
   * A graceful shutdown. Resolves to whether every request in flight finished in time.
   *
   * @param skipDelay when it resolves, the shutdown delay is over
   */
  stop(skipDelay: Promise<unknown>): Promise<boolean>;
  /**
   * After a defect: accepts nothing more and ends every request in flight at once. Resolves when each has its log
   * line.
   */
  abort(): Promise<void>;
}

const minute = 60_000;
/** Bytes read ahead of their turn on the admin port; a scrape or a probe is a few hundred. */
const adminMemory = 1_048_576;

/** What a test may want to be different. */
export type ServiceOptions = Pick<RuntimeOptions, 'log'> &
  Partial<Pick<RuntimeOptions, 'clock' | 'monotonic' | 'nonce' | 'random'>> & {
    /** Where the log writes; without it nothing is known of dropped lines. */
    readonly logDestination?: LogDestination;
    /** Milliseconds between looks at the certificate files. */
    readonly certificatesEvery?: number;
  };

/** @throws Error of `listen`, and of files that cannot be read */
export async function startService(config: Config, given: ServiceOptions): Promise<Service> {
  const redactor = new LoginRedactor(loginsIn(config));
  const meter = redactor.meter(createPrometheus({ version: packageVersion(), ...labelDomainOf(config) }));
  const ports = createPorts(config, given, redactor, meter);
  const certificates = new CertificateFiles(ports);
  const first = await certificates.prepare(config);
  certificates.use(first);
  let runtime = startRuntime(config, first, ports);
  let draining = false;
  let inForce = config;
  const listener = createListener(config.proxy, {
    ...ports,
    handle: (request, response) => runtime.handle(request, response),
    tls: listenerTexts(first),
    connectionRejected: () => meter.connectionRejected(),
    requestRejected: noteRejection(ports),
  });
  const admin = createAdmin(config, meter, () => runtime.readiness(draining));
  const [proxyUrl, adminUrl] = await listenOn(
    [listener.server, config.proxy, config.proxy.tls === undefined ? 'http' : 'https'],
    [admin, config.admin, 'http'],
  ).catch(async (error: unknown) => {
    await runtime.stop();
    throw error;
  });
  const stopLooking = certificates.lookEach(given.certificatesEvery ?? minute, (user, material) => {
    useMaterial(listener, runtime, user, material);
  });
  return {
    proxyUrl,
    adminUrl,
    async reload(next) {
      const prepared = await certificates.prepare(next);
      if (draining) throw new Error('the process is shutting down');
      redactor.allow(loginsIn(next));
      const started = startRuntime(next, prepared, ports, runtime);
      void runtime.stop(started);
      runtime = started;
      inForce = next;
      meter.reconfigure(labelDomainOf(next));
      certificates.use(prepared);
      ports.memory.limit = next.proxy.maxBufferedBytes;
      changeListener(listener, next, listenerTexts(prepared));
      return fieldsForRestart(config, next);
    },
    configLoaded: (successful) => meter.configLoaded(successful, ports.clock() / 1000),
    async stop(skipDelay) {
      draining = true;
      const finished = await shutDown({ listener, ...ports, ...inForce.proxy }, skipDelay);
      stopLooking();
      await runtime.stop();
      // Open until now: it says that this instance is draining.
      await closeServer(admin);
      return finished;
    },
    async abort() {
      draining = true;
      await abort({ listener, ...ports });
    },
  };
}

function createAdmin({ admin }: Config, meter: Prometheus, readiness: AdminAppOptions['readiness']): Server {
  const [text, openMetricsText] = [shareTurn(() => meter.page(false)), shareTurn(() => meter.page(true))];
  const page: AdminAppOptions['page'] = (openMetrics) => (openMetrics ? openMetricsText() : text());
  const server = createAdminServer(admin.maxConnections);
  // One request of a connection at a time, as on the port of the proxy.
  const app = createAdminApp({ page, readiness, allowedHosts: admin.allowedHosts });
  new ConnectionTracker(new MemoryBudget(adminMemory)).serve(server, app);
  return server;
}

/** What stays the same when the configuration is read again. */
function createPorts(
  config: Config,
  { logDestination, ...given }: ServiceOptions,
  redactor: LoginRedactor,
  meter: MetricsObserver,
): RuntimeOptions {
  logDestination?.watch({ dropped: (lines) => meter.logLinesDropped(lines) });
  const monotonic = given.monotonic ?? (() => performance.now());
  const suppressed = (): void => meter.logLineSuppressed();
  return {
    clock: () => Date.now(),
    nonce: createNonceGenerator(),
    random: () => Math.random(),
    ...given,
    monotonic,
    log: sampleRejections(redactor.log(given.log), { monotonic, suppressed }),
    redact: redactor.text,
    metrics: meter,
    limiter: new ConcurrencyLimiter(),
    memory: new MemoryBudget(config.proxy.maxBufferedBytes),
    inflight: new InflightRequests(),
    logState: () => logDestination?.state() ?? { logLinesDropped: false, logStalled: false },
    newRequestId: () => randomUUID(),
    userAgent: `countersign/${packageVersion()}`,
  };
}

/** A request that was rejected before it reached the handler. */
function noteRejection({ log, metrics: meter }: RuntimeOptions): ListenerOptions['requestRejected'] {
  return (exchange) => {
    log.requestFinished(exchange);
    meter.requestFinished(exchange);
  };
}

function useMaterial(listener: Listener, runtime: Runtime, user: TlsUser, material: TlsMaterial): void {
  if (user.role === 'listener') renewListener(listener, textsOf(material));
  else runtime.useTls(user, material);
}

/** What of a listener can change while it listens. */
function changeListener(listener: Listener, { proxy }: Config, texts: ListenerTls | undefined): void {
  setLimits(listener.server, proxy);
  renewListener(listener, texts);
}

function renewListener(listener: Listener, texts: ListenerTls | undefined): void {
  if (texts !== undefined) listener.reloadTls(texts);
}

function listenerTexts(certificates: Certificates): ListenerTls | undefined {
  return textsOf(materialOf(certificates, { role: 'listener' }));
}

function textsOf({ cert, key, ca }: TlsMaterial): ListenerTls | undefined {
  if (cert === undefined || key === undefined) return undefined;
  return { cert, key, ...(ca === undefined ? {} : { clientCa: ca }) };
}
