import { isDeepStrictEqual } from 'node:util';
import type { ValidConfig } from '../config/load.ts';
import { pathText } from '../config/problem.ts';
import { checkListener } from '../config/rules.ts';
import type { Config } from '../config/schema.ts';
import { createRoutes } from '../gateway/router.ts';
import { type Certificates, tlsOfPort } from './certificates.ts';
import { type Runtime, startRuntime } from './runtime.ts';
import { loginsIn, type Shared } from './shared.ts';
import type { ServedPort } from './shutdown.ts';

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
  'admin.tls': ({ admin }) => admin.tls === undefined,
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
  checkListener(next.callers, proxy, (path, message) => {
    throw new Error(`${pathText(path)} ${message}. Changes of proxy.host and proxy.tls need a restart.`);
  });
  return next;
}

/** New requests are handled with the next configuration; requests in flight keep theirs. */
export function replaceRuntime(
  previous: Runtime,
  loaded: ValidConfig,
  certificates: Certificates,
  shared: Shared,
): Runtime {
  const { config } = loaded;
  shared.redactor.allow(loginsIn(config));
  const routes = createRoutes(config);
  const started = startRuntime(routes, certificates, shared, previous);
  void previous.stop(started);
  shared.reconfigure(loaded, routes);
  return started;
}

/** The two listeners, which a reload does not replace. */
export interface Ports {
  readonly listener: ServedPort;
  readonly admin: ServedPort;
}

/** Applies the settings of the two ports that can change without a restart. */
export function updatePorts(
  ports: Ports,
  { memory }: Shared,
  config: Config,
  certificates: Certificates,
): void {
  memory.limit = config.proxy.maxBufferedBytes;
  const { port, listener } = ports.listener;
  port.maxConnections = config.proxy.maxConnections;
  listener.requestTimeout = requestTimeout(config.proxy);
  for (const role of ['listener', 'admin'] as const)
    ports[role].listener.reloadTls(tlsOfPort(role, certificates, config));
}

/** Milliseconds. A safety net: the handler has its own timeout for the body, with a better response. */
export function requestTimeout({ timeouts }: Config['proxy']): number {
  return timeouts.headers + timeouts.body + 5_000;
}
