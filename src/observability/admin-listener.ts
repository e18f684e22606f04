import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';

/** Milliseconds. */
export interface AdminTimeouts {
  /** A probe or a scrape sends a short head at once. */
  readonly head: number;
  /** A scrape comes every 15 to 60 seconds. */
  readonly keepAlive: number;
  /** For a connection on which nothing is sent or received while a request is in flight. */
  readonly idle: number;
}

const defaults: AdminTimeouts = { head: 5_000, keepAlive: 65_000, idle: 30_000 };

/**
 * The server of the admin port. Its connections use the same file descriptors as those of clients and of the
 * gateway, so their number and duration are limited. Beyond the limit the oldest connection without a request in
 * flight is closed, so that idle connections cannot block probes and scrapes. Does not listen yet and has no request
 * handler.
 */
export function createAdminServer(maxConnections: number, given: Partial<AdminTimeouts> = {}): Server {
  const timeouts = { ...defaults, ...given };
  const server = createServer({
    headersTimeout: timeouts.head,
    requestTimeout: timeouts.head,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: timeouts.keepAlive,
    maxHeaderSize: 8_192,
  });
  // Also ends a connection whose client does not read the response.
  server.timeout = timeouts.idle;
  const connections = new Set<Socket>();
  const inFlight = new WeakSet<Socket>();
  server.on('connection', (socket) => {
    if (connections.size >= maxConnections) evict(connections, inFlight, socket);
    if (socket.destroyed) return;
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  server.on('request', (request, response) => {
    inFlight.add(request.socket);
    response.once('close', () => inFlight.delete(request.socket));
  });
  return server;
}

/** A set keeps insertion order: the first is the oldest. If all are busy, the new connection is closed. */
function evict(connections: Set<Socket>, inFlight: WeakSet<Socket>, newcomer: Socket): void {
  const oldest = Array.from(connections).find((socket) => !inFlight.has(socket));
  if (oldest !== undefined) connections.delete(oldest);
  (oldest ?? newcomer).destroy();
}
