import { createServer as createHttpServer, type RequestListener, type Server, STATUS_CODES } from 'node:http';
import { createServer as createHttpsServer, Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import { errorCode, isParserError, ProxyError } from '../../errors.ts';
import type { TlsObserver } from '../../net/tls-observer.ts';
import type { RequestContext } from '../../request-context.ts';
import { Connections } from './connection.ts';
import { problemDetails } from './send-response.ts';
import { contextOptions, observeHandshakes, type ServerTls, sameVerification } from './server-tls.ts';
import { headTooLarge, maxHeaders, methodNotAllowed } from './validate-head.ts';

/** Times in milliseconds. */
export interface ServerLimits {
  /** For a TLS handshake, and for the head of a request. */
  readonly headersTimeout: number;
  /** For a whole request. */
  readonly requestTimeout: number;
  /** Between two requests of a connection. */
  readonly keepAliveTimeout: number;
  /** Without a byte in either direction during a request. */
  readonly timeout?: number;
  /** Bytes of the request line and the headers. */
  readonly maxHeaderSize: number;
}

interface ServerOptions {
  readonly handle: RequestListener;
  /** Called with the response to something that is not processed, to log and count it. */
  readonly requestRejected: (context: RequestContext) => void;
  /** Milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
  readonly newRequestId: () => string;
  readonly tls: ServerTls | undefined;
  readonly tlsObserver: TlsObserver;
}

/** Serves connections that others accept: Node's HTTP or HTTPS server, with a limit for everything a client can do. */
export class InboundServer {
  readonly connections = new Connections();
  readonly #options: ServerOptions;
  readonly #server: Server;
  #limits: ServerLimits;

  constructor(limits: ServerLimits, options: ServerOptions) {
    this.#limits = limits;
    this.#options = options;
    this.#server = this.#createServer();
    // A server of Node that hears this begins to end connections whose heads and requests take longer than its limits.
    this.#server.emit('listening');
  }

  get hasTls(): boolean {
    return this.#options.tls !== undefined;
  }

  /** Serves a connection. */
  accept(socket: Socket): void {
    this.#server.emit('connection', socket);
  }

  /** Holds for open connections too; a TLS handshake keeps the time of the start. */
  set limits(limits: ServerLimits) {
    const { headersTimeout, requestTimeout, keepAliveTimeout, timeout = 0 } = limits;
    this.#limits = limits;
    Object.assign(this.#server, { headersTimeout, requestTimeout, keepAliveTimeout, timeout });
  }

  /**
   * Uses other certificates for new connections, with TLS as without.
   *
   * @returns false if it cannot: TLS was switched on or off, or clients are verified in another way, which connections
   *   that are open, or in their handshake, would not be
   */
  useTls(tls: ServerTls | undefined): boolean {
    const { tls: before } = this.#options;
    if (before === undefined || tls === undefined) return before === tls;
    if (!sameVerification(before, tls)) return false;
    if (this.#server instanceof HttpsServer) this.#server.setSecureContext(contextOptions(tls));
    return true;
  }

  /** To be called when it has no connections: Node would end those in a response too. */
  stopTimers(): void {
    this.#server.close();
  }

  #createServer(): Server {
    const { timeout = 0, ...limits } = this.#limits;
    const { handle, tls, tlsObserver } = this.#options;
    const options = {
      ...limits,
      connectionsCheckingInterval: 1_000,
      insecureHTTPParser: false,
      // The handler checks it and responds with a better error.
      requireHostHeader: false,
    };
    const server =
      tls === undefined
        ? createHttpServer(options)
        : createHttpsServer({
            ...options,
            ...contextOptions(tls),
            handshakeTimeout: limits.headersTimeout,
            requestCert: tls.clientCa !== undefined,
            rejectUnauthorized: false,
          });
    server.timeout = timeout;
    // A head of many short lines uses 20 times its size. One more than allowed, because Node 22 drops the rest silently.
    server.maxHeadersCount = maxHeaders + 1;
    // Node's only way, missing in its types, to send a response after the client's FIN.
    Object.assign(server, { httpAllowHalfOpen: true });
    if (tls !== undefined) observeHandshakes(server, tlsObserver);
    this.connections.serve(
      server,
      (request, response) => {
        const { url = '' } = request;
        // Express would respond to some other targets itself. The handler looks at the original one.
        if (!url.startsWith('/')) Object.assign(request, { originalUrl: url, url: '/' });
        handle(request, response);
      },
      () => this.#rejection(pipelined()),
    );
    return this.#rejectUnparsed(server);
  }

  #rejectUnparsed(server: Server): Server {
    const fail = (socket: Socket, error: Error, problem: () => ProxyError): void =>
      this.connections.of(socket)?.fail(error, () => this.#rejection(problem()));
    server.on('connect', ({ socket }) => fail(socket, methodNotAllowed(), methodNotAllowed));
    return server.on('clientError', (error, socket: Socket) => {
      const timedOut = errorCode(error) === 'ERR_HTTP_REQUEST_TIMEOUT';
      if (isParserError(error) || timedOut) fail(socket, error, () => this.#problemOf(error));
      // The connection was reset or its TLS handshake failed, so no response can be sent.
      else socket.destroy();
    });
  }

  #problemOf(error: Error): ProxyError {
    const code = errorCode(error);
    if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
      return new ProxyError('request-timeout', 'Timed out reading the request headers.');
    if (code !== 'HPE_HEADER_OVERFLOW') return new ProxyError('bad-request', 'Malformed HTTP/1.1 request.');
    return headTooLarge(`${this.#limits.maxHeaderSize} bytes or ${maxHeaders} headers`);
  }

  /** The response to what no handler processes. The connection ends with it. */
  #rejection(error: ProxyError): string {
    const { newRequestId, monotonic, requestRejected } = this.#options;
    const { status, reason, outcome } = error;
    const id = newRequestId();
    const { headers, body } = problemDetails(error, { id });
    const startedAt = monotonic();
    requestRejected({ id, startedAt, status, reason, outcome, attempts: 0, durations: { total: 0 } });
    const lines = Object.entries({ ...headers, Connection: 'close' }).map(
      ([name, value]) => `${name}: ${value}\r\n`,
    );
    return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`;
  }
}

function pipelined(): ProxyError {
  const detail =
    'The response to the request before was not complete. Send the request again, one at a time on each connection.';
  return new ProxyError('pipelined', detail, { retryAfter: 1 });
}
