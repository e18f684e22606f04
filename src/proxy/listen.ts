import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer, Server as HttpsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import type { Config } from '../config/shape.ts';
import { notPost } from './edge.ts';
import { OneByOne } from './one-by-one.ts';
import { Roster } from './roster.ts';
import { answerUnparsed, refusalForHead, type UnparsedPorts } from './unparsed.ts';

/** PEM texts of the listener. With `clientCa`, callers may show a certificate of that CA. */
export interface TlsTexts {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string;
}

export interface ListenerPorts extends UnparsedPorts {
  readonly handle: RequestListener;
  readonly tls: TlsTexts | undefined;
  /** A connection beyond `maxConnections` was closed. */
  readonly dropped: () => void;
}

export interface Listener {
  /** Not yet listening. */
  readonly server: Server;
  /** Takes other certificates for the connections to come; does nothing without TLS. */
  readonly renew: (tls: TlsTexts) => void;
}

/** The proxy's server, with bounds on everything a caller can be slow with. */
export function createListener(config: Config['proxy'], ports: ListenerPorts): Listener {
  const options = {
    headersTimeout: config.deadlines.headers,
    // The handler has its own deadline for the body and answers better; this one is behind it.
    requestTimeout: config.deadlines.headers + config.deadlines.body + 5_000,
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
          ...secureContext(ports.tls),
          handshakeTimeout: config.deadlines.headers,
          requestCert: true,
          rejectUnauthorized: false,
        });
  // Each takes a file descriptor, whoever it is from; without one no key file and no gateway can be reached.
  server.maxConnections = config.maxConnections;
  server.on('drop', () => ports.dropped());
  // Bounded by their size. A number would not refuse the headers beyond it, but hide them.
  server.maxHeadersCount = 0;
  const order = new OneByOne();
  listenTo(server, order, ports);
  return { server, renew: renewer(server, order, ports.tls) };
}

/** Whoever was let in by a client CA that is another one now has to show a certificate again. */
function renewer(server: Server, order: OneByOne, first: TlsTexts | undefined): Listener['renew'] {
  if (!(server instanceof HttpsServer)) return () => {};
  const connections = new Roster<TLSSocket>();
  server.on('secureConnection', (socket) => socket.once('close', connections.enter(socket)));
  let clientCa = first?.clientCa;
  return (tls) => {
    server.setSecureContext(secureContext(tls));
    if (tls.clientCa === clientCa) return;
    clientCa = tls.clientCa;
    for (const socket of connections.present()) order.endWith(socket);
  };
}

function listenTo(server: Server, order: OneByOne, ports: ListenerPorts): void {
  const handle = order.guard((request, response) => {
    // RFC 9112 section 3.2: no other form than the path leads anywhere here, and Express answers some itself.
    if (!request.url?.startsWith('/')) request.url = '/';
    ports.handle(request, response);
  });
  server.on('request', handle);
  // Without these listeners Node says "100 Continue", or 417, before anybody has looked at the head.
  server.on('checkContinue', handle).on('checkExpectation', handle);
  server.on('connect', (_request, socket) => {
    const refusal = notPost();
    order.interrupt(refusal, socket, () => answerUnparsed(refusal, socket, ports));
  });
  server.on('clientError', (error, socket: Duplex) => {
    if (!socket.writable || !isAboutHttp(error)) socket.destroy();
    else order.interrupt(error, socket, () => answerUnparsed(refusalForHead(error), socket, ports));
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
function secureContext(tls: TlsTexts): {
  cert: string;
  key: string;
  ca: string | string[];
  minVersion: 'TLSv1.2';
} {
  const { cert, key, clientCa = [] } = tls;
  return { cert, key, minVersion: 'TLSv1.2', ca: clientCa };
}
