import { isIP } from 'node:net';

/**
 * Whether a `Host` header names this server: by an IP address, as `localhost`, or by a configured name; with or
 * without a port. A page of another site that a browser was made to load from here (DNS rebinding) names its own.
 */
export function isKnownHost(host: string | undefined, allowedHosts: readonly string[]): boolean {
  const [, name = ''] = /^(\[[^\]]*\]|[^:]*)(?::\d{1,5})?$/.exec(host ?? '') ?? [];
  if (/^\[.*\]$/.test(name)) return isIP(name.slice(1, -1)) === 6;
  const known = ['localhost', ...allowedHosts].map((allowed) => allowed.toLowerCase());
  return isIP(name) === 4 || known.includes(name.toLowerCase());
}
