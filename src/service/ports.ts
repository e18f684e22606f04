import type { RequestListener } from 'node:http';
import { InboundServer } from '../proxy/inbound/server.ts';
import { adminLimits } from './admin.ts';
import { Port } from './port.ts';
import type { Service } from './service.ts';
import type { Shared } from './shared.ts';

export type Ports = Readonly<Record<'listener' | 'admin', Port>>;

/** Every request is handled by the service that is current by then, whichever one its connection was opened with. */
export function createPorts(shared: Shared, inUse: { readonly current: Service | undefined }): Ports {
  const { monotonic, newRequestId, tlsPeers, log, metrics, audit } = shared;
  const handle =
    (role: keyof Ports): RequestListener =>
    (request, response) =>
      inUse.current?.handle[role](request, response);
  return {
    listener: new Port({
      createServer: (limits, tls) =>
        new InboundServer(limits, {
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
    admin: new Port({
      createServer: (limits, tls) =>
        new InboundServer(limits, {
          handle: handle('admin'),
          monotonic,
          newRequestId,
          tls,
          tlsObserver: tlsPeers.clients('admin'),
          requestRejected: () => {},
        }),
      // Whoever can connect can take all connections. Then they all end, so that the next probe finds room.
      dropped: (port) => port.endAll(),
    }),
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
