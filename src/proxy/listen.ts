import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import type { Config } from '../config/shape.ts';
import { Refusal } from '../errors.ts';
import type { Exchange } from '../exchange.ts';
import { problem } from './refuse.ts';

/** PEM texts of the listener. With `clientCa`, callers may show a certificate of that CA. */
export interface TlsTexts {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string;
}

export interface ListenerPorts {
  readonly handle: RequestListener;
  readonly tls: TlsTexts | undefined;
  /** For what never became a request: what was answered, to be logged and counted. */
  readonly refused: (exchange: Exchange) => void;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  readonly newRequestId: () => string;
}

/** The proxy's server, not yet listening, with bounds on everything a caller can be slow with. */
export function createListener(config: Config['proxy'], ports: ListenerPorts): Server {
  const options = {
    headersTimeout: config.deadlines.headers,
    // The handler has its own deadline for the body and answers better; this one is behind it.
    requestTimeout: config.deadlines.headers + config.deadlines.body + 5_000,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: 60_000,
    requireHostHeader: true,
  };
  const server =
    ports.tls === undefined
      ? createHttpServer(options, ports.handle)
      : createHttpsServer(
          { ...options, ...secureContext(ports.tls), requestCert: true, rejectUnauthorized: false },
          ports.handle,
        );
  // Without this listener Node says "100 Continue" before anybody has looked at the head.
  server.on('checkContinue', ports.handle);
  server.on('clientError', (error, socket) => answerInvalid(error, socket, ports));
  return server;
}

/** What `setSecureContext` takes when certificates are renewed. */
export function secureContext(tls: TlsTexts): {
  cert: string;
  key: string;
  ca?: string;
  minVersion: 'TLSv1.2';
} {
  const { cert, key, clientCa } = tls;
  return { cert, key, minVersion: 'TLSv1.2', ...(clientCa === undefined ? {} : { ca: clientCa }) };
}

/** Bytes that are not HTTP, or a head that did not arrive in time: there is no response object to answer with. */
function answerInvalid(error: Error, socket: Duplex, ports: ListenerPorts): void {
  if (!socket.writable || ('code' in error && error.code === 'ECONNRESET')) {
    socket.destroy();
    return;
  }
  const refusal = refusalFor(error);
  const exchange: Exchange = {
    id: ports.newRequestId(),
    startedAt: ports.monotonic(),
    outcome: refusal.outcome,
    attempts: 0,
    durations: { total: 0 },
    status: refusal.status,
    reason: refusal.reason,
  };
  const { headers, body } = problem(refusal, exchange.id);
  const lines = Object.entries({ ...headers, Connection: 'close' }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  socket.end(
    `HTTP/1.1 ${refusal.status} ${refusal.status === 408 ? 'Request Timeout' : 'Bad Request'}\r\n${lines.join('')}\r\n${body}`,
  );
  ports.refused(exchange);
}

function refusalFor(error: Error): Refusal {
  if ('code' in error && error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Refusal('request-timeout', 'The head of the request did not arrive in time.');
  }
  return new Refusal('bad-request', 'What was sent is not a valid HTTP/1.1 request.');
}
