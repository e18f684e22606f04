import { InboundServer } from '../proxy/inbound/server.ts';
import { adminLimits } from './admin.ts';
import { Port } from './port.ts';
import type { Service } from './service.ts';
import type { Shared } from './shared.ts';

export type Ports = Readonly<Record<'listener' | 'admin', Port>>;

/** Every request is handled by the service that is current by then, whichever one its connection was opened with. */
export function createPorts(shared: Shared, inUse: { readonly current: Service | undefined }): Ports {
  const { monotonic, newRequestId, tlsPeers, log, metrics, audit } = shared;
  const portOf = (
    role: keyof Ports,
    requestRejected: Shared['log']['requestFinished'],
    dropped: (port: Port) => void,
  ): Port =>
    new Port({
      createServer: (limits, tls) =>
        new InboundServer(limits, {
          handle: (request, response) => inUse.current?.handle[role](request, response),
          monotonic,
          newRequestId,
          tls,
          tlsObserver: tlsPeers.clients(role),
          requestRejected,
        }),
      dropped,
    });
  // Before it reached the handler.
  const requestRejected: Shared['log']['requestFinished'] = (context) => {
    for (const observer of [log, metrics, audit?.log]) observer?.requestFinished(context);
  };
  return {
    listener: portOf('listener', requestRejected, () => metrics.connectionRejected()),
    // Whoever can connect can take all connections. Then they all end, so that the next probe finds room.
    admin: portOf(
      'admin',
      () => {},
      (port) => port.endAll(),
    ),
  };
}

/** Serves the connections of both ports as a service says. */
export function usePorts({ listener, admin }: Ports, { config, certificates }: Service): void {
  const { proxy } = config;
  const { headers, body } = proxy.timeouts;
  listener.use({
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
  admin.use({
    maxConnections: config.admin.maxConnections,
    tls: certificates.tlsOf('admin', config),
    limits: adminLimits,
  });
}
