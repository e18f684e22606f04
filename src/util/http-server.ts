import { once } from 'node:events';
import type { Server } from 'node:http';

interface Address {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
}

/** @returns the URL with the actual port. @throws Error of `listen`, such as `EADDRINUSE` */
export async function listen(server: Server, { host, port }: Address, scheme = 'http'): Promise<string> {
  await once(server.listen(port, host), 'listening');
  const address = server.address();
  const actualPort = typeof address === 'object' && address !== null ? address.port : port;
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${actualPort}`;
}

/** Closes a server and every connection to it, even during a response. */
export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
