import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import { SlotList } from '../../util/slot-list.ts';

/** How much longer, and how much more, is read after the last response, so that the client receives it. */
const linger = { milliseconds: 1_000, bytes: 1_048_576 };

/** Bytes for requests of all connections that came too early. Node keeps them until their connection ends. */
const maxEarlyBytes = 2_097_152;

interface Received {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/**
 * One client connection, which processes one request at a time. What comes before the response to that request, be it
 * another request or no request at all, is rejected behind the response, and the connection ends. Nothing after a response
 * with `Connection: close` is processed (RFC 9112 section 9.6).
 */
export class Connection {
  readonly #socket: Socket;
  readonly #handle: RequestListener;
  /** About how many bytes the requests use that came too early. */
  earlyBytes = 0;
  #current: Received | undefined;
  /** Returns the response to what came too early. */
  #reject: (() => string) | undefined;
  /** The connection ends with its next response. */
  #draining = false;
  /** The connection ends as soon as no response is pending. */
  #closing = false;

  /** @param handle processes a request */
  constructor(socket: Socket, handle: RequestListener) {
    this.#socket = socket;
    this.#handle = handle;
    // A client may close its side (FIN) and still read the response, but not before a TLS handshake is complete.
    socket.allowHalfOpen = true;
    // After CONNECT there is no other listener for errors. Node resumes the socket to read the body of any request.
    socket.on('error', () => {}).on('resume', () => this.#hold());
  }

  /**
   * A request was parsed, though its body may be incomplete.
   *
   * @param reject returns the response to it if it came too early
   * @returns whether it is processed
   */
  receive(request: IncomingMessage, response: ServerResponse, reject: () => string): boolean {
    if (this.#current === undefined && this.#socket.writable && !this.#closing) {
      this.#process({ request, response });
      return true;
    }
    this.earlyBytes += bytesOf(request);
    request.resume();
    this.#rejectNext(reject);
    return false;
  }

  /**
   * What came is not HTTP, is a CONNECT request, or came too slowly.
   *
   * @param reject returns the response to it
   */
  fail(error: Error, reject: () => string): void {
    const request = this.#current?.request;
    if (!this.#socket.writable) return;
    if (request === undefined) this.#end(reject());
    else if (request.complete) this.#rejectNext(reject);
    else {
      this.#closing = true;
      failBody(request, error);
    }
  }

  /** The connection ends with its next response, or with the current one. */
  endWithNextResponse(): void {
    this.#draining = true;
    const response = this.#current?.response;
    if (response?.headersSent === false) response.setHeader('Connection', 'close');
  }

  /** Ends the connection now. */
  destroy(): void {
    this.#socket.destroy();
  }

  /** @returns whether it was read until now */
  pause(): boolean {
    if (this.#socket.isPaused()) return false;
    this.#socket.pause();
    return true;
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Ends the connection with the response to its current request, or now if it is idle. */
  close(): void {
    this.#closing = true;
    if (this.#current === undefined) this.#end();
    else this.endWithNextResponse();
  }

  #process({ request, response }: Received): void {
    this.#current = { request, response };
    // As Buffers, chunks of a single byte would use 400 bytes each until somebody reads them.
    if (request.headers['transfer-encoding'] !== undefined) request.setEncoding('latin1');
    // Node's parser cannot find the next request after one with an Upgrade header, and does not know that an HTTP/1.0
    // response without a length ends its connection.
    const isLast = request.headers.upgrade !== undefined || request.httpVersion === '1.0';
    if (isLast || this.#draining) response.setHeader('Connection', 'close');
    response.once('close', () => this.#finished());
    this.#handle(request, response);
  }

  #rejectNext(reject: () => string): void {
    if (this.#reject !== undefined) return;
    this.#reject = reject;
    this.#hold();
  }

  /** Behind a request that came too early nothing is read. */
  #hold(): void {
    if (this.#reject !== undefined && this.#socket.writable) this.#socket.pause();
  }

  #finished(): void {
    this.#current = undefined;
    // If the connection ended with the response, the client knows that nothing after it was processed.
    if (!this.#socket.writable) return;
    if (this.#reject !== undefined) this.#end(this.#reject());
    else if (this.#closing) this.#end();
  }

  #end(response = ''): void {
    if (!this.#socket.writable) return;
    this.#socket.end(response);
    readOn(this.#socket);
  }
}

/**
 * Our side has ended: reads what the client still sends. With unread input the connection would be reset, so that the client
 * could lose the response (RFC 9112 section 9.6).
 */
function readOn(socket: Socket): void {
  // If the client has closed its side too, Node destroys the socket.
  const timer = setTimeout(() => socket.destroy(), linger.milliseconds);
  socket.once('close', () => clearTimeout(timer)).resume();
}

/** Whether all of a response was written: it has ended, or its connection with it. */
export function hasEnded({ writableEnded, socket }: ServerResponse): boolean {
  return writableEnded || socket?.writableEnded === true;
}

/** Ends a response with the last part of its body, and the connection if the response says so. */
export function endResponse(response: ServerResponse, body: Buffer | string, encoding?: 'latin1'): void {
  const { req: request, socket } = response;
  if (socket === null || response.getHeader('connection') !== 'close') {
    response.end(body, encoding ?? 'utf8');
    return;
  }
  // When a response has ended, Node closes the connection at once.
  if (body.length === 0) response.flushHeaders();
  else response.write(body, encoding ?? 'utf8');
  let left = linger.bytes;
  request.on('data', ({ length }: Buffer | string) => {
    left -= length;
    if (left < 0) socket.destroy();
  });
  socket.end(() => readOn(socket)).resume();
}

/** Reports an error of a body to its reader, which may begin only after the caller is authenticated. */
function failBody(request: IncomingMessage, error: Error): void {
  setImmediate(() => {
    if (request.listenerCount('error') > 0) request.emit('error', error);
    else request.once('newListener', () => failBody(request, error));
  });
}

/** Measured, with what Node needs to respond to it. */
function bytesOf({ rawHeaders }: IncomingMessage): number {
  return 1_200 + 40 * rawHeaders.length;
}

/** The connections of a server that have got as far as HTTP. */
export class Connections {
  readonly #open = new SlotList<Connection>();
  readonly #bySocket = new WeakMap<Socket, Connection>();
  #earlyBytes = 0;
  #waiting = false;
  #draining = false;

  /**
   * @param handle processes a request; called for one request per connection at a time
   * @param reject returns the response to a request that came before the response to the one before it
   */
  serve(server: Server, handle: RequestListener, reject: () => string): void {
    server.on(server instanceof HttpsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
      if (socket.destroyed) return;
      const connection = new Connection(socket, handle);
      if (this.#draining) connection.endWithNextResponse();
      this.#bySocket.set(socket, connection);
      const remove = this.#open.add(connection);
      socket.once('close', () => {
        remove();
        this.#earlyBytes -= connection.earlyBytes;
      });
    });
    const receive: RequestListener = (request, response) => {
      const connection = this.of(request.socket);
      if (connection?.receive(request, response, reject) === false) this.#countEarly(request);
    };
    server.on('request', receive);
    // Without these listeners Node would respond with "100 Continue" or 417 before the head is validated.
    server.on('checkContinue', receive).on('checkExpectation', receive);
  }

  /** `undefined` for a socket that never got to HTTP, such as one whose TLS handshake failed. */
  of(socket: Socket): Connection | undefined {
    return this.#bySocket.get(socket);
  }

  /** Requests are still processed, but each connection ends with its next response (`Connection: close`). */
  drain(): void {
    this.#draining = true;
    for (const connection of this.#open.values()) connection.endWithNextResponse();
  }

  /** Closes idle connections now, and the others after the response to their current request. */
  close(): void {
    for (const connection of this.#open.values()) connection.close();
  }

  /** Resolves when no connection is open. Those in a TLS handshake do not count, since they have no request. */
  closed(): Promise<void> {
    return this.#open.empty();
  }

  /**
   * With one read, Node parses thousands of tiny requests of a connection. If those of all connections use too much memory,
   * these end, and the others are not read before it is free, in the next turn of the event loop.
   */
  #countEarly(request: IncomingMessage): void {
    this.#earlyBytes += bytesOf(request);
    if (this.#earlyBytes <= maxEarlyBytes || this.#waiting) return;
    this.#waiting = true;
    const open = this.#open.values();
    for (const connection of open) if (connection.earlyBytes > 0) connection.destroy();
    const paused = open.filter((connection) => connection.pause());
    setImmediate(() => {
      this.#waiting = false;
      for (const connection of paused) connection.resume();
    });
  }
}
