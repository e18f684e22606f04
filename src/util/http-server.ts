import { once } from 'node:events';
import type { IncomingHttpHeaders, Server } from 'node:http';
import { isIP } from 'node:net';

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

/**
 * Whether a browser sent this for a web page: it says so by `Origin` (Fetch section 3.2) or `Sec-Fetch-Site` (Fetch
 * Metadata section 2.3). A page can post forms to any address, loopback too, without asking it.
 */
export function isFromWebPage(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site'] ?? 'none';
  return headers.origin !== undefined || (site !== 'none' && site !== 'same-origin');
}

/**
 * Whether a `Host` header names this server: by an IP address, as `localhost`, or by a configured name; with or
 * without a port. With DNS rebinding, a page of another site sends that site's own name.
 */
export function isKnownHost(host: string | undefined, allowedHosts: readonly string[]): boolean {
  const [, name = ''] = /^(\[[^\]]*\]|[^:]*)(?::\d{1,5})?$/.exec(host ?? '') ?? [];
  if (/^\[.*\]$/.test(name)) return isIP(name.slice(1, -1)) === 6;
  if (isIP(name) === 4) return true;
  const lower = name.toLowerCase();
  return lower === 'localhost' || allowedHosts.some((allowed) => allowed.toLowerCase() === lower);
}
