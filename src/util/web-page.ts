import type { IncomingHttpHeaders } from 'node:http';

/**
 * Whether a browser sent this for a web page: it says so by `Origin` (Fetch section 3.2) or `Sec-Fetch-Site` (Fetch
 * Metadata section 2.3). A page can post forms to any address, loopback too, without asking it.
 */
export function isFromWebPage(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site'] ?? 'none';
  return headers.origin !== undefined || (site !== 'none' && site !== 'same-origin');
}
