import { createServer as createHttpServer, type Server, type ServerOptions } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import { presentsToken } from '../auth/bearer-token.ts';
import type { Config } from '../config/schema.ts';
import { isLoopback } from '../config/url.ts';
import { closeServer } from '../net/http.ts';
import { createAdminApp } from '../observability/admin-app.ts';
import type { Logger } from '../observability/logger.ts';
import type { Prometheus, Readings } from '../observability/prometheus.ts';
import type { TlsPeers } from '../observability/tls-peers.ts';
import { ConnectionTracker } from '../proxy/inbound/listener.ts';
import { acceptTls, type ListenerTls } from '../proxy/inbound/tls-handshakes.ts';
import { createStatus, type StatusSources } from './status.ts';

interface AdminOptions extends StatusSources {
  /** Since the start. */
  readonly logLinesDropped: () => number;
  readonly prometheus: Pick<Prometheus, 'page'>;
  readonly log: Pick<Logger, 'message'>;
  readonly tlsPeers: Pick<TlsPeers, 'clients'>;
  /** Least milliseconds between two renderings of a page; default: {@link renderInterval}. */
  readonly renderInterval?: number | undefined;
}

/** Milliseconds between two lines about wrong tokens, so that guesses do not fill the log. */
const repeatAfter = 60_000;
/** Milliseconds: with a thousand logins, each rendering of the metrics takes tens of them. */
const renderInterval = 1_000;
/** Milliseconds for a TLS handshake. */
const handshakeTimeout = 5_000;

export type Admin = ReturnType<typeof createAdmin>;

/** The server of the admin port, not yet listening. @param started what the process was started with */
export function createAdmin(started: Config['admin'], tls: ListenerTls | undefined, options: AdminOptions) {
  const { prometheus, readiness, runtime } = options;
  const wrongToken = createWrongTokenLog(options);
  // One request per connection at a time, as on the proxy port.
  const connections = new ConnectionTracker();
  const { server, tlsInUse, reloadTls } = createServer(started, tls, options, () => connections.close());
  const app = createAdminApp({
    page: (openMetrics) => prometheus.page(openMetrics, readingsOf(options)),
    monotonic: options.monotonic,
    interval: options.renderInterval ?? renderInterval,
    readiness,
    status: createStatus(options),
    statusAccess: (authorization) => {
      const access = statusAccess(started, runtime().config.admin, authorization);
      if (access === 'denied' && authorization !== undefined) wrongToken();
      return access;
    },
    certificateRequired: () => tlsInUse()?.clientCa !== undefined,
    allowedHosts: started.allowedHosts,
  });
  connections.serve(server, app);
  /** Ends every connection, also during a response. */
  const close = (): Promise<void> => {
    const closed = closeServer(server);
    // The server does not know those in a TLS handshake.
    connections.destroyAll();
    return closed;
  };
  return { server, reloadTls, close };
}

function readingsOf({ limiter, certificates, runtime, logLinesDropped }: AdminOptions): Readings {
  const { jwtIssuers } = runtime();
  return {
    inFlight: (environment) => limiter.inFlight(environment),
    certificates: certificates.inUse(),
    jwtKeysFetchedAt: new Map(jwtIssuers.list.map(({ name, source }) => [name, source.fetchedAt ?? 0])),
    logLinesDropped: logLinesDropped(),
  };
}

function createServer(
  { maxConnections }: Config['admin'],
  tls: ListenerTls | undefined,
  { tlsPeers }: AdminOptions,
  verificationChanged: () => void,
) {
  let inUse = tls;
  let accept = (_tls: ListenerTls | undefined): void => {};
  const createWithTls = (settings: ServerOptions): Server => {
    const created = createHttpsServer(settings);
    const observer = tlsPeers.clients('admin');
    if (tls) accept = acceptTls(created, { tls, timeout: handshakeTimeout, observer, verificationChanged });
    return created;
  };
  const server = createAdminServer(maxConnections, tls && createWithTls);
  /** Uses other certificates for new connections. Does nothing without TLS, or without certificates. */
  const reloadTls = (next: ListenerTls | undefined): void => {
    inUse &&= next ?? inUse;
    accept(next);
  };
  return { server, tlsInUse: () => inUse, reloadTls };
}

/** A token is required wherever one is configured; beyond loopback the status is off without one. */
function statusAccess({ host }: Config['admin'], { tokenSha256 }: Config['admin'], authorization?: string) {
  if (tokenSha256 === undefined) return isLoopback(host) ? 'granted' : 'off';
  return presentsToken(authorization, tokenSha256) ? 'granted' : 'denied';
}

/** `count` of a line: wrong tokens since the line before it. */
function createWrongTokenLog({ log, monotonic }: Pick<AdminOptions, 'log' | 'monotonic'>): () => void {
  let [count, loggedAt] = [0, Number.NEGATIVE_INFINITY];
  return () => {
    count += 1;
    const now = monotonic();
    if (now - loggedAt < repeatAfter) return;
    log.message('warn', 'status requests with a wrong token', { count });
    [count, loggedAt] = [0, now];
  };
}

/**
 * The server of the admin port. Its connections use the same file descriptors as those of clients and of the
 * gateway, so their number and duration are limited. Beyond the limit the oldest connection without a request in
 * flight is closed, so that idle connections cannot block probes and scrapes. Does not listen yet and has no request
 * handler.
 *
 * @param create makes a server with TLS
 */
export function createAdminServer(
  maxConnections: number,
  create: (options: ServerOptions) => Server = createHttpServer,
): Server {
  const server = create({
    // A probe or a scrape sends a short head at once, and a scrape comes every 15 to 60 seconds.
    headersTimeout: 5_000,
    requestTimeout: 5_000,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: 65_000,
    maxHeaderSize: 8_192,
  });
  // Ends a connection on which nothing is sent or received during a request, as by a client that does not read.
  server.timeout = 30_000;
  // A set keeps insertion order: the first is the oldest.
  const connections = new Set<Socket>();
  const inFlight = new Set<string>();
  server.on('connection', (socket: Socket) => {
    if (connections.size >= maxConnections) {
      const oldest = Array.from(connections).find((one) => !inFlight.has(peerOf(one))) ?? socket;
      connections.delete(oldest.destroy());
    }
    if (socket.destroyed) return;
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  server.on('request', ({ socket }, response) => {
    const peer = peerOf(socket);
    inFlight.add(peer);
    response.once('close', () => inFlight.delete(peer));
  });
  return server;
}

/** With TLS, a request has another socket than the TCP connection below it. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
