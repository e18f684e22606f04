import { once } from 'node:events';
import {
  type Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as plainRequest,
  type Server,
} from 'node:http';
import { request as tlsRequest } from 'node:https';
import type { Server as NetServer, Socket } from 'node:net';
import { errorCode } from '../errors.ts';
import { ConnectionError } from './network-failure.ts';

interface HttpRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | string | undefined;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly text: string;
}

interface HttpRequestOptions {
  readonly agent: Agent;
  /** Ends the request at any point, also in the middle of a slowly dripping body. */
  readonly signal: AbortSignal;
  readonly maxResponseBytes: number;
}

/** The server had already closed the kept-alive socket. There was no response, and reads may be retried. */
export class StaleSocket extends Error {}

/** The rest of the response was not read. */
export class ResponseTooLarge extends Error {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;

  constructor({ statusCode = 0, headers }: IncomingMessage) {
    super('the response is too large');
    this.status = statusCode;
    this.headers = headers;
  }
}

/**
 * One HTTP request and its whole response. Follows no redirect, and uses no proxy of the environment.
 *
 * @throws StaleSocket, ResponseTooLarge, ConnectionError, or the error of Node, which may hold the address
 */
export async function sendHttpRequest(
  { method, url, headers, body }: HttpRequest,
  { agent, signal, maxResponseBytes }: HttpRequestOptions,
): Promise<HttpResponse> {
  const send = url.protocol === 'https:' ? tlsRequest : plainRequest;
  const request = send(url, { method, agent, signal, headers });
  request.end(body);
  const response = await responseOf(request);
  const bytes = await collect(response, maxResponseBytes);
  const { statusCode: status = 0, headers: responseHeaders } = response;
  return { status, headers: responseHeaders, bytes, text: bytes.toString('utf8') };
}

function responseOf(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve);
    // Node sends no other event for it, not even when the signal aborts.
    request.once('upgrade', ({ statusCode }, socket) => {
      socket.destroy();
      reject(new ConnectionError('other', `status ${statusCode}`));
    });
    request.on('error', (error) => {
      reject(request.reusedSocket && errorCode(error) === 'ECONNRESET' ? new StaleSocket() : error);
    });
  });
}

async function collect(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Leaving the loop destroys the socket, so the rest is not read.
    if (bytes > maxBytes) throw new ResponseTooLarge(response);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

export interface Address {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
}

/**
 * Listens at a host; at `::` for IPv6 and IPv4, of which a machine may have only one.
 *
 * @returns the URL with the actual port. @throws Error of `listen`, such as `EADDRINUSE`
 */
export async function listen(server: NetServer, address: Address, scheme = 'http'): Promise<string> {
  try {
    return await listenAt(server, address, scheme);
  } catch (error) {
    if (address.host !== '::' || errorCode(error) !== 'EAFNOSUPPORT') throw error;
    return listenAt(server, { ...address, host: '0.0.0.0' }, scheme);
  }
}

async function listenAt(server: NetServer, { host, port }: Address, scheme: string): Promise<string> {
  await once(server.listen(port, host), 'listening');
  const address = server.address();
  const actualPort = typeof address === 'object' && address !== null ? address.port : port;
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${actualPort}`;
}

/** The address of a client. On a socket for both families, IPv4 addresses are mapped (RFC 4291 section 2.5.5.2). */
export function clientAddress({ remoteAddress }: Socket): string | undefined {
  return remoteAddress?.replace(/^::ffff:(?=\d+\.)/i, '');
}

/** Closes a server and every connection to it, even during a response. */
export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
