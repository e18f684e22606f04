import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import { SlotList } from '../../util/slot-list.ts';

/** Bytes that are parsed at a time. So many tiny requests may be parsed before the first one is processed. */
const sliceBytes = 512;

/** Bytes of one connection that are parsed in a turn of the event loop. In chunks of single bytes they take 2 ms. */
const turnBytes = 4_096;

/** Bytes of a body that are parsed before its reader begins. A chunk of a single byte uses 400 bytes of memory. */
const unreadBytes = { plain: turnBytes, chunked: sliceBytes };

/** How much longer, and how much more, is read after the last response, so that the client receives it. */
const linger = { milliseconds: 1_000, bytes: 1_048_576 };

interface Received {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/**
 * One client connection, which processes one request at a time. What comes before the response to that request, be it
 * another request or no request at all, is rejected behind the response, and the connection ends. Nothing after a response
 * with `Connection: close` is processed (RFC 9112 section 9.6).
 *
 * With a listener for `readable`, a socket hands out bytes only when `read` is called, and emits them as `data` then. So
 * Node's parser gets no more than is wanted.
 */
export class Connection {
  readonly #socket: Socket;
  readonly #handle: RequestListener;
  #current: Received | undefined;
  /** Returns what is sent behind the current response, with which the connection ends. Nothing more is read. */
  #reject: (() => string) | undefined;
  /** The connection ends with its next response. */
  #draining = false;
  /** The connection ends as soon as no response is pending. */
  #closing = false;
  /** Others have a turn. */
  #yields = false;

  /** @param handle processes a request */
  constructor(socket: Socket, handle: RequestListener) {
    this.#socket = socket;
    this.#handle = handle;
    // A client may close its side (FIN) and still read the response, but not before a TLS handshake is complete.
    socket.allowHalfOpen = true;
    // After CONNECT there is no other listener for errors. Node resumes the socket when a body is to be read.
    socket.on('error', () => {}).on('readable', () => this.#read());
    socket.on('resume', () => this.#read());
  }

  /**
   * A request was parsed, though its body may be incomplete.
   *
   * @param reject returns the response to it if it came too early
   */
  receive(request: IncomingMessage, response: ServerResponse, reject: () => string): void {
    if (this.#current === undefined && this.#socket.writable && !this.#closing) {
      this.#process({ request, response });
      return;
    }
    request.resume();
    this.#reject ??= reject;
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
    else if (request.complete) this.#reject ??= reject;
    else {
      this.#reject ??= () => '';
      failBody(request, error);
    }
  }

  /** The connection ends with its next response, or with the current one. */
  endWithNextResponse(): void {
    this.#draining = true;
    const response = this.#current?.response;
    if (response?.headersSent === false) response.setHeader('Connection', 'close');
  }

  /** Ends the connection with the response to its current request, or now if it is idle. */
  endWhenIdle(): void {
    this.#closing = true;
    if (this.#current === undefined) this.#end();
    else this.endWithNextResponse();
  }

  #process({ request, response }: Received): void {
    this.#current = { request, response };
    // Node's parser cannot find the next request after one with an Upgrade header, and does not know that an HTTP/1.0
    // response without a length ends its connection.
    const isLast = request.headers.upgrade !== undefined || request.httpVersion === '1.0';
    if (isLast || this.#draining) response.setHeader('Connection', 'close');
    response.on('close', () => this.#finished());
    this.#handle(request, response);
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
    discardInput(this.#socket);
    this.#socket.end(response);
    destroyLater(this.#socket);
  }

  #read(): void {
    for (let left = turnBytes; this.#wantsBytes(); left -= sliceBytes) {
      if (left <= 0) {
        this.#yield();
        return;
      }
      const { readableLength } = this.#socket;
      // Without a number it also finds out that there is no more to come.
      const slice = readableLength > 0 ? Math.min(readableLength, sliceBytes) : undefined;
      if (this.#socket.read(slice) === null) return;
    }
  }

  #yield(): void {
    this.#yields = true;
    setImmediate(() => {
      this.#yields = false;
      this.#read();
    });
  }

  #wantsBytes(): boolean {
    if (this.#yields || !this.#socket.writable || this.#reject !== undefined) return false;
    const request = this.#current?.request;
    return request === undefined || request.complete || wantsBody(request);
  }
}

/** Node resumes the socket when the body begins to be read. */
function wantsBody({ readableFlowing, readableLength, headers }: IncomingMessage): boolean {
  const isChunked = headers['transfer-encoding'] !== undefined;
  return readableFlowing === true || readableLength < (isChunked ? unreadBytes.chunked : unreadBytes.plain);
}

/**
 * Our side ends: what the client still sends is read, and no parser sees it. With unread input the connection would be reset,
 * so that the client could lose the response (RFC 9112 section 9.6).
 */
function discardInput(socket: Socket): void {
  let left = linger.bytes;
  socket.removeAllListeners('readable').removeAllListeners('data');
  socket.on('data', ({ length }: Buffer) => {
    left -= length;
    if (left < 0) socket.pause();
  });
  socket.resume();
}

/** If the client closes its side in time, Node destroys the socket. */
function destroyLater(socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), linger.milliseconds);
  socket.once('close', () => clearTimeout(timer));
}

/** Whether all of a response was written: it has ended, or its connection with it. */
export function hasEnded({ writableEnded, socket }: ServerResponse): boolean {
  return writableEnded || socket?.writableEnded === true;
}

/**
 * Ends a response with the last part of its body, and the connection if the response says so; then it needs a
 * `Content-Length`, since nothing says that it was chunked to its end.
 */
export function endResponse(response: ServerResponse, body: Buffer | string, encoding?: 'latin1'): void {
  const { socket } = response;
  if (socket === null || response.getHeader('connection') !== 'close') {
    response.end(body, encoding ?? 'utf8');
    return;
  }
  // When a response has ended, Node closes the connection at once.
  if (body.length === 0) response.flushHeaders();
  else response.write(body, encoding ?? 'utf8');
  discardInput(socket);
  socket.end(() => destroyLater(socket));
}

/** Reports an error of a body to its reader, which may begin only after the caller is authenticated. */
function failBody(request: IncomingMessage, error: Error): void {
  setImmediate(() => {
    if (request.listenerCount('error') > 0) request.emit('error', error);
    else request.once('newListener', () => failBody(request, error));
  });
}

/** The connections of a server that have got as far as HTTP. */
export class Connections {
  readonly #open = new SlotList<Connection>();
  readonly #bySocket = new WeakMap<Socket, Connection>();
  #draining = false;
  #closing = false;

  /**
   * @param handle processes a request; called for one request per connection at a time
   * @param reject returns the response to a request that came before the response to the one before it
   */
  serve(server: Server, handle: RequestListener, reject: () => string): void {
    server.on(server instanceof HttpsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
      // A TLS handshake ended too late.
      if (this.#closing) socket.destroy();
      if (socket.destroyed) return;
      const connection = new Connection(socket, handle);
      if (this.#draining) connection.endWithNextResponse();
      this.#bySocket.set(socket, connection);
      socket.once('close', this.#open.add(connection));
    });
    const receive: RequestListener = (request, response) =>
      this.of(request.socket)?.receive(request, response, reject);
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

  /** Ends idle connections now, and the others after the response to their current request; none begins. */
  endWhenIdle(): void {
    this.#closing = true;
    for (const connection of this.#open.values()) connection.endWhenIdle();
  }

  /** Resolves when no connection is open. Those in a TLS handshake do not count, since they have no request. */
  allEnded(): Promise<void> {
    return this.#open.empty();
  }
}
