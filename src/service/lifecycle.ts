import type { ValidConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { createRoutes } from '../gateway/router.ts';
import { Port } from '../net/port.ts';
import type { TlsUser } from '../net/tls-files.ts';
import type { TlsMaterial } from '../net/tls-material.ts';
import { Listener } from '../proxy/inbound/listener.ts';
import type { ListenerTls } from '../proxy/inbound/listener-tls.ts';
import { createAdmin } from './admin.ts';
import { openAudit } from './audit.ts';
import { CertificateFiles, type OnRenewed, tlsOf, tlsOfPort } from './certificates.ts';
import {
  fieldsForRestart,
  fitForListener,
  type Ports,
  replaceRuntime,
  requestTimeout,
  updatePorts,
} from './reload.ts';
import { type Runtime, startRuntime } from './runtime.ts';
import { createObservers, createShared, type ServiceOptions, type Shared } from './shared.ts';
import { abort, endPort, type ServedPort, shutDown } from './shutdown.ts';
import { system } from './system.ts';

/** The running proxy with its two ports. */
export type Service = Awaited<ReturnType<typeof startService>>;

const minute = 60_000;
/** Milliseconds to send the last spans. */
const tracingTimeout = 2_000;
/** Milliseconds to write the last audit records. */
const auditTimeout = { stop: 2_000, abort: 500 };

/** @throws Error of `listen`, or for unreadable files */
export async function startService(loaded: ValidConfig, overrides: ServiceOptions) {
  const opened = await open(loaded, overrides);
  try {
    return await run(loaded.config, overrides, opened);
  } catch (error) {
    // Its lock is released.
    await opened.audit?.close(auditTimeout.stop);
    throw error;
  }
}

/** What a start reads and opens before anything runs. */
async function open(loaded: ValidConfig, overrides: ServiceOptions) {
  const { config, digest } = loaded;
  const routes = createRoutes(config);
  const observers = createObservers(loaded, routes, overrides);
  const certificates = new CertificateFiles(observers.log);
  const inUse = await certificates.prepare(config);
  certificates.use(inUse);
  const audit =
    config.audit && (await openAudit(config.audit, { ...system, ...overrides, ...observers, digest }));
  return { routes, observers, certificates, inUse, audit };
}

async function run(
  config: Config,
  overrides: ServiceOptions,
  { routes, observers, certificates, inUse, audit }: Awaited<ReturnType<typeof open>>,
) {
  const useTls: OnRenewed = (user, material) => renewTls(user, material, ports, runtime);
  const tlsFailed = (): void => void certificates.checkNow({ role: 'vault' }, useTls);
  const shared = createShared(config, overrides, observers, audit, tlsFailed);
  const { inflight, metrics, tracing } = shared;
  let runtime = startRuntime(routes, inUse, shared);
  (await tracing.prepare(config.tracing))();
  let draining = false;
  const state = { readiness: () => runtime.readiness(draining), runtime: () => runtime, certificates };
  const ports = {
    listener: createProxyPort(config, tlsOfPort('listener', inUse, config), shared, state.runtime),
    admin: createAdmin(config.admin, tlsOfPort('admin', inUse, config), { ...shared, ...state }),
  };
  const { listener, admin } = ports;
  const [proxyUrl, adminUrl] = await openPorts(config, ports).catch(async (error: unknown) => {
    await runtime.stop();
    throw error;
  });
  const stopChecking = certificates.checkEvery(overrides.certificateCheckInterval ?? minute, useTls);
  return {
    proxyUrl,
    adminUrl,
    /**
     * Applies another configuration to new requests, except for the fields that require a restart.
     *
     * @returns the fields that differ from those the process started with, and require a restart
     * @throws Error for unreadable files; the current configuration stays active
     */
    async reload(loaded: ValidConfig): Promise<readonly string[]> {
      const { config: next } = loaded;
      const prepared = await certificates.prepare(fitForListener(config, next));
      const applyTracing = await tracing.prepare(next.tracing);
      if (draining) throw new Error('the process is shutting down');
      runtime = replaceRuntime(runtime, loaded, prepared, shared);
      applyTracing();
      audit?.configApplied(loaded.digest);
      certificates.use(prepared);
      updatePorts(ports, shared, next, prepared);
      return fieldsForRestart(config, next);
    },
    /** Follows an audit file that was renamed. @throws Error if its key cannot be read; the previous one stays in use */
    reopenAudit: async () => audit?.reopen(),
    /** Sets the metric for whether the last loaded configuration is fully in effect. */
    configLoaded: (successful: boolean) => metrics.configLoaded(successful, shared.clock() / 1000),
    /**
     * Graceful shutdown. Resolves to whether all in-flight requests finished in time.
     *
     * @param skipDelay ends the shutdown delay when it resolves
     */
    async stop(skipDelay: Promise<unknown>): Promise<boolean> {
      draining = true;
      const finished = await shutDown(listener, inflight, runtime.config.proxy.timeouts, skipDelay);
      stopChecking();
      await Promise.all([audit?.close(auditTimeout.stop), tracing.stop(tracingTimeout)]);
      await runtime.stop();
      // Open until now, so that /readyz reports the shutdown.
      endPort(admin);
      return finished;
    },
    /** After a crash: accepts no more requests, and aborts those in flight. Resolves when each has its log line. */
    async abort(): Promise<void> {
      draining = true;
      await abort(listener, inflight);
      await audit?.close(auditTimeout.abort);
    },
  };
}

/** Uses certificates that have replaced others. */
function renewTls(user: TlsUser, material: TlsMaterial, ports: Ports, runtime: Runtime): void {
  const { role } = user;
  if (role === 'listener' || role === 'admin')
    ports[role].listener.reloadTls(tlsOf(material, role, runtime.config));
  else runtime.useTls(user, material);
}

function createProxyPort(
  { proxy }: Config,
  tls: ListenerTls | undefined,
  shared: Shared,
  runtime: () => Runtime,
): ServedPort {
  const { metrics } = shared;
  const limits = {
    headersTimeout: proxy.timeouts.headers,
    requestTimeout: requestTimeout(proxy),
    keepAliveTimeout: 60_000,
    maxHeaderSize: 16_384,
  };
  const listener = new Listener(limits, {
    ...shared,
    handle: (request, response) => runtime().handle(request, response),
    tls,
    tlsObserver: shared.tlsPeers.clients('listener'),
    // Before it reached the handler.
    requestRejected: (context) => {
      for (const observer of [shared.log, metrics, shared.audit]) observer?.requestFinished(context);
    },
  });
  const port = new Port(() => metrics.connectionRejected());
  port.maxConnections = proxy.maxConnections;
  listener.serve(port);
  return { port, listener };
}

/** Opens both ports or none: a process that only has one of them must not look healthy. */
async function openPorts({ proxy, admin }: Config, ports: Ports): Promise<[proxy: string, admin: string]> {
  const schemeOf = ({ tls }: Config['proxy'] | Config['admin']) => (tls === undefined ? 'http' : 'https');
  const { port } = ports.listener;
  const proxyUrl = await port.listen(proxy, schemeOf(proxy));
  try {
    return [proxyUrl, await ports.admin.port.listen(admin, schemeOf(admin))];
  } catch (error) {
    port.close();
    throw error;
  }
}
