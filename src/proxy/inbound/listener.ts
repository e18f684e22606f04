import { createServer as createHttpServer, type RequestListener, type Server, STATUS_CODES } from 'node:http';
import { createServer as createHttpsServer, Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Config } from '../../config/schema.ts';
import { errorCode, isParserError, ProxyError } from '../../errors.ts';
import { clientAddress } from '../../net/http.ts';
import type { TlsObserver } from '../../net/tls-observer.ts';
import type { RequestContext } from '../../request-context.ts';
import { SlotList } from '../../util/slot-list.ts';
import { Connection, Turns } from './connection.ts';
import { problemDetails } from './send-response.ts';
import { acceptTls, type ListenerTls } from './tls-handshakes.ts';
import { maxHeaders, methodNotAllowed } from './validate-head.ts';

interface ListenerOptions {
  /** Called with the response to something that is not a request, to log and count it. */
  readonly requestRejected: (context: RequestContext) => void;
  /** Milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
  readonly newRequestId: () => string;
  readonly handle: RequestListener;
  readonly tls: ListenerTls | undefined;
  /** Called when a connection beyond `maxConnections` or `maxConnectionsPerAddress` was closed. */
  readonly connectionRejected: () => void;
  readonly tlsObserver: TlsObserver;
}

export interface Listener {
  /** Not yet listening. */
  readonly server: Server;
  readonly connections: ConnectionTracker;
  /** Uses other certificates for new connections. Does nothing without TLS, or without certificates. */
  readonly reloadTls: (tls: ListenerTls | undefined) => void;
}

/** The server of the proxy port, with a timeout for everything in which a client can be slow. */
export function createListener(config: Config['proxy'], options: ListenerOptions): Listener {
  const serverOptions = {
    headersTimeout: config.timeouts.headers,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: 60_000,
    // The handler checks it and responds with a better error.
    requireHostHeader: false,
  };
  const connections = new ConnectionTracker(options.connectionRejected);
  const server =
    options.tls === undefined ? createHttpServer(serverOptions) : createHttpsServer(serverOptions);
  const reloadTls =
    options.tls !== undefined && server instanceof HttpsServer
      ? acceptTls(server, {
          tls: options.tls,
          timeout: config.timeouts.headers,
          observer: options.tlsObserver,
          verificationChanged: () => connections.close(),
        })
      : () => {};
  setLimits({ server, connections }, config);
  server.on('drop', () => options.connectionRejected());
  // A head of many short lines uses 20 times its size. One more than allowed, because Node 22 drops the rest silently.
  server.maxHeadersCount = maxHeaders + 1;
  // Missing in Node's types: send the response even after the client's FIN.
  Object.assign(server, { httpAllowHalfOpen: true });
  connections.serve(server, (request, response) => {
    // RFC 9112 section 3.2: only the origin form is a valid target here; Express would respond to some others itself.
    if (!request.url?.startsWith('/')) request.url = '/';
    options.handle(request, response);
  });
  rejectUnparsed(server, connections, options);
  return { server, connections, reloadTls };
}

/** Sets the limits that can be changed while the server listens. */
export function setLimits(
  { server, connections }: Pick<Listener, 'server' | 'connections'>,
  { timeouts, maxConnections, maxConnectionsPerAddress }: Config['proxy'],
): void {
  // A safety net: the handler has its own timeout for the body, with a better response.
  server.requestTimeout = timeouts.headers + timeouts.body + 5_000;
  // Each connection uses a file descriptor. Without a free one, no key file can be read and no gateway reached.
  server.maxConnections = maxConnections;
  connections.byAddress.limit = maxConnectionsPerAddress ?? Number.POSITIVE_INFINITY;
}

function rejectUnparsed(server: Server, connections: ConnectionTracker, options: ListenerOptions): void {
  server.on('connect', ({ socket }) => {
    const error = methodNotAllowed();
    connections.connectionOf(socket)?.fail(error, () => parseErrorResponse(error, options));
  });
  server.on('clientError', (error, socket: Socket) => {
    const connection = socket.writable ? connections.connectionOf(socket) : undefined;
    // Node's time for a request, or for its head, is over.
    const timedOut = errorCode(error) === 'ERR_HTTP_REQUEST_TIMEOUT';
    const problem = timedOut
      ? new ProxyError('request-timeout', 'Timed out reading the request headers.')
      : new ProxyError('bad-request', 'Malformed HTTP/1.1 request.');
    if (connection !== undefined && (isParserError(error) || timedOut))
      connection.fail(error, () => parseErrorResponse(problem, options));
    // The connection was reset or its TLS handshake failed, so no response can be sent.
    else socket.destroy();
  });
}

/** The response to bytes for which Node has no response object. The connection ends with it. */
function parseErrorResponse(error: ProxyError, options: ListenerOptions): string {
  const { status, reason, outcome } = error;
  const id = options.newRequestId();
  const { headers, body } = problemDetails(error, { id });
  const lines = Object.entries({ ...headers, Connection: 'close' }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const startedAt = options.monotonic();
  options.requestRejected({ id, startedAt, status, reason, outcome, attempts: 0, durations: { total: 0 } });
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`;
}

/** Tracks every client connection of a server, from accept to close. */
export class ConnectionTracker {
  readonly byAddress = new AddressLimit();
  readonly #rejected: () => void;
  /** All accepted sockets, including those in a TLS handshake and those that are no longer handled as HTTP. */
  readonly #sockets = new SlotList<Socket>();
  readonly #connections = new SlotList<Connection>();
  readonly #bySocket = new WeakMap<Socket, Connection>();
  readonly #turns = new Turns();
  #draining = false;

  /** @param rejected called when a connection was closed because its address has too many */
  constructor(rejected: () => void = () => {}) {
    this.#rejected = rejected;
  }

  /** @param handle processes a request; called for one request per connection at a time */
  serve(server: Server, handle: RequestListener): void {
    server.on('connection', (socket: Socket) => {
      // Errors during a TLS handshake, or after CONNECT or an upgrade, have no other listener.
      socket.on('error', () => {}).once('close', this.#sockets.add(socket));
      if (this.byAddress.admits(socket)) return;
      socket.destroy();
      this.#rejected();
    });
    server.on(server instanceof HttpsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
      if (socket.destroyed) return;
      // A client may close its side (FIN) and still read the response, but not before a TLS handshake is complete.
      socket.allowHalfOpen = true;
      const connection = new Connection(socket, handle, this.#turns);
      if (this.#draining) connection.endWithNextResponse();
      this.#bySocket.set(socket, connection);
      socket.once('close', this.#connections.add(connection));
    });
    const receive: RequestListener = (request, response) =>
      this.connectionOf(request.socket)?.receive(request, response);
    server.on('request', receive);
    // Without these listeners Node would respond with "100 Continue" or 417 before the head is validated.
    server.on('checkContinue', receive).on('checkExpectation', receive);
  }

  /** `undefined` for a socket that never got to HTTP, such as one whose TLS handshake failed. */
  connectionOf(socket: Socket): Connection | undefined {
    return this.#bySocket.get(socket);
  }

  /** Requests are still processed, but each connection ends with its next response (`Connection: close`). */
  drain(): void {
    this.#draining = true;
    for (const connection of this.#connections.values()) connection.endWithNextResponse();
  }

  /** Closes idle connections now, and the others after the response to their current request. */
  close(): void {
    for (const connection of this.#connections.values()) connection.close();
  }

  /** Resolves when no connection is open. Those in a TLS handshake do not count, since they have no request. */
  closed(): Promise<void> {
    return this.#connections.empty();
  }

  destroyAll(): void {
    for (const socket of this.#sockets.values()) socket.destroy();
  }
}

/** Counts the open connections of each client address. It knows no address without one, so its memory is bounded. */
export class AddressLimit {
  /** Connections of one address. */
  limit = Number.POSITIVE_INFINITY;
  readonly #open = new Map<string, number>();

  /** @returns `false` if the address has as many connections as it may have */
  admits(socket: Socket): boolean {
    const address = clientAddress(socket) ?? 'gone';
    const open = this.#open.get(address) ?? 0;
    if (open >= this.limit) return false;
    this.#open.set(address, open + 1);
    socket.once('close', () => this.#release(address));
    return true;
  }

  #release(address: string): void {
    const open = (this.#open.get(address) ?? 0) - 1;
    if (open > 0) this.#open.set(address, open);
    else this.#open.delete(address);
  }
}
