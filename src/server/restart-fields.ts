import { isDeepStrictEqual } from 'node:util';
import { pathText } from '../config/problem.ts';
import { credentialFindings } from '../config/rules/callers.ts';
import type { Config } from '../config/schema.ts';

/** The fields that are read only at the start: listening sockets and the log. */
export const startOnly: Readonly<Record<string, (config: Config) => unknown>> = {
  'proxy.host': ({ proxy }) => proxy.host,
  'proxy.port': ({ proxy }) => proxy.port,
  // Only whether TLS is on; changed files take effect on reload.
  'proxy.tls': ({ proxy }) => proxy.tls === undefined,
  // Also the timeout of TLS handshakes, which Node reads when a server is created.
  'proxy.timeouts.headers': ({ proxy }) => proxy.timeouts.headers,
  'admin.host': ({ admin }) => admin.host,
  'admin.port': ({ admin }) => admin.port,
  'admin.maxConnections': ({ admin }) => admin.maxConnections,
  'admin.allowedHosts': ({ admin }) => admin.allowedHosts,
  'audit.file': ({ audit }) => audit?.file,
  // The key itself is read again with each reload.
  'audit.keyFile': ({ audit }) => audit?.keyFile,
  'audit.required': ({ audit }) => audit?.required,
  'audit.sync': ({ audit }) => audit?.sync,
  'log.level': ({ log }) => log.level,
};

/** The fields that differ from those the process started with, and require a restart. */
export function fieldsForRestart(started: Config, next: Config): readonly string[] {
  return Object.entries(startOnly)
    .filter(([, read]) => !isDeepStrictEqual(read(started), read(next)))
    .map(([field]) => field);
}

/**
 * The listener keeps its address, and whether it has TLS, until a restart. So it must be fit for the credentials of the
 * next configuration too.
 *
 * @returns that configuration
 * @throws Error if the listener is not
 */
export function fitForListener(started: Config, next: Config): Config {
  const { host, tls } = started.proxy;
  const proxy = { ...next.proxy, host, tls: tls === undefined ? undefined : (next.proxy.tls ?? tls) };
  const [finding] = credentialFindings(next.callers, proxy);
  if (finding === undefined) return next;
  throw new Error(
    `${pathText(finding.path)} ${finding.message}. Changes of proxy.host and proxy.tls need a restart.`,
  );
}
