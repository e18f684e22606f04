import type { RequestListener } from 'node:http';
import type { ValidConfig } from '../config/load.ts';
import { Listener } from '../proxy/inbound/listener.ts';
import { adminLimits } from './admin.ts';
import { cancelPorts, openPorts, type Ports, ServedPort } from './ports.ts';
import { fieldsForRestart } from './reload.ts';
import { buildService, type Service } from './service.ts';
import { createShared, type ServiceOptions, type Shared } from './shared.ts';
import { abort, shutDown } from './shutdown.ts';

/** The running proxy with its two ports. */
export type Countersign = Awaited<ReturnType<typeof startCountersign>>;

/** Milliseconds to send the last spans. */
const tracingTimeout = 2_000;
/** Milliseconds to write the last audit records. */
const auditTimeout = { stop: 2_000, abort: 500 };

/** @throws Error of `listen`, or for unreadable files */
export async function startCountersign(loaded: ValidConfig, options: ServiceOptions) {
  let draining = false;
  let current: Service | undefined;
  const isDraining = (): boolean => draining;
  const tlsFailed = (): void => current?.checkVaultCertificates();
  const shared = await createShared(loaded, options, { isDraining, tlsFailed });
  /** The current one, and those before it that still have requests in flight. */
  const services = new Set<Service>();
  const inflight = {
    idle: () => Promise.all(Array.from(services, (service) => service.inflight.idle())),
    abortAll: () => Promise.all(Array.from(services, (service) => service.inflight.abortAll())),
  };
  const ports = createPorts(shared, () => current);
  const end = async (service: Service, other?: Service): Promise<void> => {
    await service.drain(other);
    services.delete(service);
  };

  /** Builds a service beside the current one, checks it, and lets it take over the ports. */
  async function replaceService(next: ValidConfig): Promise<void> {
    const previous = current;
    const service = await buildService(next, shared, previous);
    try {
      if (previous !== undefined) await service.check(previous);
      await openPorts(ports, next.config);
      if (draining) throw new Error('the process is shutting down');
    } catch (error) {
      cancelPorts(ports);
      await service.drain(previous);
      throw error;
    }
    current = service;
    services.add(service);
    service.begin(() => usePorts(ports, service), previous);
    usePorts(ports, service);
    if (previous !== undefined) void end(previous, service);
  }

  try {
    await replaceService(loaded);
  } catch (error) {
    // Its lock is released.
    await shared.audit?.close(auditTimeout.stop);
    throw error;
  }
  return {
    get proxyUrl(): string {
      return ports.listener.url;
    },
    get adminUrl(): string {
      return ports.admin.url;
    },
    /**
     * Replaces the service by one with another configuration. Requests in flight keep theirs.
     *
     * @returns the fields that differ from those the process started with, and require a restart
     * @throws Error for unreadable files, for another key source that does not respond; nothing has changed then
     */
    async reload(next: ValidConfig): Promise<readonly string[]> {
      await replaceService(next);
      shared.audit?.configApplied(next.digest);
      return fieldsForRestart(loaded.config, next.config);
    },
    /** Follows an audit file that was renamed. @throws Error if its key cannot be read; the previous one stays in use */
    reopenAudit: async () => shared.audit?.reopen(),
    /** Sets the metric for whether the last loaded configuration is fully in effect. */
    configLoaded: (successful: boolean) => shared.metrics.configLoaded(successful, shared.clock() / 1000),
    /**
     * Graceful shutdown. Resolves to whether all in-flight requests finished in time.
     *
     * @param skipDelay ends the shutdown delay when it resolves
     */
    async stop(skipDelay: Promise<unknown>): Promise<boolean> {
      draining = true;
      const { timeouts } = (current?.config ?? loaded.config).proxy;
      const finished = await shutDown(ports.listener, inflight, timeouts, skipDelay);
      await Promise.all([shared.audit?.close(auditTimeout.stop), shared.tracing.stop(tracingTimeout)]);
      await Promise.all(Array.from(services, (service) => service.drain()));
      // Open until now, so that /readyz reports the shutdown.
      ports.admin.end();
      return finished;
    },
    /** After a crash: accepts no more requests, and aborts those in flight. Resolves when each has its log line. */
    async abort(): Promise<void> {
      draining = true;
      await abort(ports.listener, inflight);
      await shared.audit?.close(auditTimeout.abort);
    },
  };
}

/** Every request is handled by the service that is current by then, whichever one its connection was opened with. */
function createPorts(shared: Shared, current: () => Service | undefined): Ports {
  const { monotonic, newRequestId, tlsPeers, log, metrics, audit } = shared;
  const handle =
    (role: keyof Ports): RequestListener =>
    (request, response) =>
      current()?.handle[role](request, response);
  return {
    listener: new ServedPort({
      createListener: (limits, tls) =>
        new Listener(limits, {
          handle: handle('listener'),
          monotonic,
          newRequestId,
          tls,
          tlsObserver: tlsPeers.clients('listener'),
          // Before it reached the handler.
          requestRejected: (context) => {
            for (const observer of [log, metrics, audit?.log]) observer?.requestFinished(context);
          },
        }),
      dropped: () => metrics.connectionRejected(),
    }),
    admin: new ServedPort({
      createListener: (limits, tls) =>
        new Listener(limits, {
          handle: handle('admin'),
          monotonic,
          newRequestId,
          tls,
          tlsObserver: tlsPeers.clients('admin'),
          requestRejected: () => {},
        }),
      // Whoever can connect can take all connections. Then they all end, so that the next probe finds room.
      dropped: (port) => port.destroyAll(),
    }),
  };
}

function usePorts(ports: Ports, { config, certificates }: Service): void {
  const { proxy, admin } = config;
  const { headers, body } = proxy.timeouts;
  ports.listener.use({
    maxConnections: proxy.maxConnections,
    tls: certificates.tlsOf('listener', config),
    limits: {
      headersTimeout: headers,
      // A safety net: the handler has its own timeout for the body, with a better response.
      requestTimeout: headers + body + 5_000,
      keepAliveTimeout: 60_000,
      maxHeaderSize: 16_384,
    },
  });
  ports.admin.use({
    maxConnections: admin.maxConnections,
    tls: certificates.tlsOf('admin', config),
    limits: adminLimits,
  });
}
