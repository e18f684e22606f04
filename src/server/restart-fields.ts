import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../config/schema.ts';

/** The fields that are read once, at the start: sockets that listen, and the log. */
export const startOnly: Readonly<Record<string, (config: Config) => unknown>> = {
  'proxy.host': ({ proxy }) => proxy.host,
  'proxy.port': ({ proxy }) => proxy.port,
  // Whether there is TLS at all; other files take effect.
  'proxy.tls': ({ proxy }) => proxy.tls === undefined,
  // Also the timeout of TLS handshakes, which Node fixes when a server is created.
  'proxy.timeouts.headers': ({ proxy }) => proxy.timeouts.headers,
  'admin.host': ({ admin }) => admin.host,
  'admin.port': ({ admin }) => admin.port,
  'admin.maxConnections': ({ admin }) => admin.maxConnections,
  'admin.allowedHosts': ({ admin }) => admin.allowedHosts,
  'log.level': ({ log }) => log.level,
};

/** The fields of a configuration that differ from those the process started with, and need a restart. */
export function fieldsForRestart(started: Config, next: Config): readonly string[] {
  return Object.entries(startOnly)
    .filter(([, valueIn]) => !isDeepStrictEqual(valueIn(started), valueIn(next)))
    .map(([field]) => field);
}
