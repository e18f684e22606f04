import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer, Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Config } from '../../config/schema.ts';
import type { MemoryBudget } from '../memory-budget.ts';
import { ConnectionTracker } from './connection-tracker.ts';
import { errorForParseFailure, type ParseErrorOptions, parseErrorResponse } from './parse-error-response.ts';
import { methodNotAllowed } from './validate-head.ts';

/** PEM texts of the listener. With `clientCa`, callers may show a certificate of that CA. */
export interface ListenerTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string;
}

export interface ListenerOptions extends ParseErrorOptions {
  readonly handle: RequestListener;
  /** Bounds what is read ahead of its turn. */
  readonly memory: MemoryBudget;
  readonly tls: ListenerTls | undefined;
  /** A connection beyond `maxConnections` was closed. */
  readonly connectionRejected: () => void;
}

export interface Listener {
  /** Not yet listening. */
  readonly server: Server;
  readonly connections: ConnectionTracker;
  /** Takes other certificates for the connections to come; does nothing without TLS. */
  readonly reloadTls: (tls: ListenerTls) => void;
}

/** The proxy's server, with bounds on everything a caller can be slow with. */
export function createListener(config: Config['proxy'], ports: ListenerOptions): Listener {
  const options = {
    headersTimeout: config.timeouts.headers,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: 60_000,
    // The handler looks for it, and says what is wrong.
    requireHostHeader: false,
  };
  const server =
    ports.tls === undefined
      ? createHttpServer(options)
      : createHttpsServer({
          ...options,
          ...tlsOptions(ports.tls),
          handshakeTimeout: config.timeouts.headers,
          requestCert: true,
          rejectUnauthorized: false,
        });
  setLimits(server, config);
  server.on('drop', () => ports.connectionRejected());
  // Bounded by their size. A number would not refuse the headers beyond it, but hide them.
  server.maxHeadersCount = 0;
  // Not in Node's types: a response is still sent after the client's FIN.
  Object.assign(server, { httpAllowHalfOpen: true });
  const connections = new ConnectionTracker(ports.memory);
  connections.serve(server, (request, response) => {
    // RFC 9112 section 3.2: no other form than the path leads anywhere here, and Express answers some itself.
    if (!request.url?.startsWith('/')) request.url = '/';
    ports.handle(request, response);
  });
  rejectUnparsed(server, connections, ports);
  return { server, connections, reloadTls: tlsReloader(server, connections, ports.tls) };
}

/** The limits that also take effect while the server listens. */
export function setLimits(server: Server, { timeouts, maxConnections }: Config['proxy']): void {
  // The handler has its own deadline for the body and answers better; this one is behind it.
  server.requestTimeout = timeouts.headers + timeouts.body + 5_000;
  // Each takes a file descriptor, whoever it is from; without one no key file and no gateway can be reached.
  server.maxConnections = maxConnections;
}

/** After the client CA changes, connections authenticated by the old one end. */
function tlsReloader(
  server: Server,
  connections: ConnectionTracker,
  first: ListenerTls | undefined,
): Listener['reloadTls'] {
  if (!(server instanceof HttpsServer)) return () => {};
  let clientCa = first?.clientCa;
  return (tls) => {
    server.setSecureContext(tlsOptions(tls));
    if (tls.clientCa === clientCa) return;
    clientCa = tls.clientCa;
    connections.closeAfterCurrent();
  };
}

function rejectUnparsed(server: Server, connections: ConnectionTracker, ports: ParseErrorOptions): void {
  server.on('connect', ({ socket }) => {
    const refusal = methodNotAllowed();
    connections.connectionOf(socket)?.fail(refusal, () => parseErrorResponse(refusal, ports));
  });
  server.on('clientError', (error, socket: Socket) => {
    const connection = socket.writable && isAboutHttp(error) ? connections.connectionOf(socket) : undefined;
    if (connection === undefined) socket.destroy();
    else connection.fail(error, () => parseErrorResponse(errorForParseFailure(error), ports));
  });
}

/** Nobody can read an answer over a connection that broke, or whose TLS handshake failed or never ended. */
function isAboutHttp(error: Error): boolean {
  const code = 'code' in error ? String(error.code) : '';
  return code.startsWith('HPE_') || code === 'ERR_HTTP_REQUEST_TIMEOUT';
}

/**
 * What `setSecureContext` takes when certificates are renewed. Without a CA of one's own no client certificate
 * is accepted; Node would take those of every public CA.
 */
function tlsOptions(tls: ListenerTls): {
  cert: string;
  key: string;
  ca: string | string[];
  minVersion: 'TLSv1.2';
} {
  const { cert, key, clientCa = [] } = tls;
  return { cert, key, minVersion: 'TLSv1.2', ca: clientCa };
}
