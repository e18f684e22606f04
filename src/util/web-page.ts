import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';

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
