import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { ProxyError } from '../errors.ts';

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

/**
 * Rejects what any web page can make a browser send: it needs no credentials to reach an anonymous caller, and the
 * browser presents client certificates for it. It does not know bearer tokens.
 *
 * @param allowedHosts for anonymous callers, as for {@link isKnownHost}: with DNS rebinding, the page has our origin
 * @throws ProxyError `web-page`, `unknown-host`
 */
export function rejectWebPage(
  headers: IncomingHttpHeaders,
  credential: 'anonymous' | 'certificate' | 'jwt' | 'token',
  allowedHosts: readonly string[],
): void {
  if (credential === 'jwt' || credential === 'token') return;
  if (isFromWebPage(headers)) {
    throw new ProxyError(
      'web-page',
      'A web page sent this (Origin or Sec-Fetch-Site header). Send it from a server, or with a bearer token.',
    );
  }
  if (credential === 'anonymous' && !isKnownHost(headers.host, allowedHosts)) {
    throw unknownHost('Without credentials the Host');
  }
}

/** @param where what names the host, to begin a sentence */
export function unknownHost(where: string): ProxyError {
  return new ProxyError(
    'unknown-host',
    `${where} has to be an IP address, localhost, or a name in proxy.allowedHosts. Use one of them, or have the name added.`,
  );
}
