import { once } from 'node:events';
import type { Server } from 'node:http';
import type { Server as NetServer, Socket } from 'node:net';

export interface Address {
  /** `::` is IPv6 and IPv4. */
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
}

/** @returns the `http:` URL with the actual port. @throws Error of `listen`, such as `EADDRINUSE` */
export async function listen(server: NetServer, { host, port }: Address): Promise<string> {
  // Without a host, Node listens at `::`, or at 0.0.0.0 on a machine that has no IPv6.
  await once(server.listen(port, host === '::' ? undefined : host), 'listening');
  const address = server.address();
  const actualPort = typeof address === 'object' && address !== null ? address.port : port;
  return `http://${host.includes(':') ? `[${host}]` : host}:${actualPort}`;
}

/** The address of a client. On a socket for both families, IPv4 addresses are mapped (RFC 4291 section 2.5.5.2). */
export function clientAddress({ remoteAddress }: Socket): string | undefined {
  return remoteAddress?.replace(/^::ffff:(?=\d+\.)/i, '');
}

/** Closes a server and every connection to it, even during a response. */
export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
