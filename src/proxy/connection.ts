import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { unlessClosed } from './break-off.ts';

/** How long, and how much of, what is unwanted is still read, so that the client sees the response (milliseconds). */
export const linger = { milliseconds: 1_000, bytes: 1_048_576 };

/** Requests received ahead of their turn before the connection is read no further. */
const maxQueued = 8;

interface Received {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/**
 * One client connection, whose requests are processed one at a time: the next one begins when the response to the
 * one before it has been written. So a request behind a response that said `Connection: close` is never processed
 * (RFC 9112 section 9.6), no response is lost because an earlier one ended the connection, and a client that
 * pipelines gets no more than its share.
 */
export class Connection {
  readonly #socket: Socket;
  readonly #handle: (request: IncomingMessage, response: ServerResponse) => void;
  readonly #queue: Received[] = [];
  #current: Received | undefined;
  /** Nothing more is taken in; what was received is still processed. */
  #closing = false;
  #lingering = false;

  constructor(socket: Socket, handle: (request: IncomingMessage, response: ServerResponse) => void) {
    this.#socket = socket;
    this.#handle = handle;
    // Node detaches its own listeners from a socket that leaves HTTP (CONNECT); a reset would then be a crash.
    socket.on('error', () => {});
    // Node resumes the socket after each response.
    socket.on('resume', () => this.#pauseIfFull());
  }

  get idle(): boolean {
    return this.#current === undefined;
  }

  /** @param draining whether the connection should end with the last of the requests received by then */
  receive(request: IncomingMessage, response: ServerResponse, draining: boolean): void {
    if (this.#closing || this.#saidClose()) {
      this.#readRestBeforeClose();
      return;
    }
    // The response that was to be the last is not the last any more, unless the client has been told already.
    const before = this.#last()?.response;
    if (draining && before?.headersSent === false) before.removeHeader('Connection');
    if (draining) response.setHeader('Connection', 'close');
    if (this.#current !== undefined) this.#queue.push({ request, response });
    else this.#begin({ request, response });
    this.#pauseIfFull();
  }

  /** The last of the responses that the client waits for, if there is one, says `Connection: close`. */
  announceClose(): void {
    const response = this.#last()?.response;
    if (response?.headersSent === false) response.setHeader('Connection', 'close');
  }

  /** Ends the connection with the response to the last request received, or now if there is none. */
  closeAfterReceived(): void {
    this.#closing = true;
    if (this.#current === undefined) this.#lingeringClose();
    else this.announceClose();
  }

  /** Ends the connection with the response to the current request; requests queued behind it are not processed. */
  closeAfterCurrent(): void {
    this.#queue.length = 0;
    this.closeAfterReceived();
  }

  /**
   * The bytes that follow cannot be read as HTTP, or ask for something that is not served. Responses to requests
   * received before are written first.
   *
   * @param respond makes the response; called when no other one is outstanding on the connection
   */
  fail(error: Error, respond: () => string): void {
    if (this.#lingering) return;
    const last = this.#last();
    this.#closing = true;
    if (last === undefined) {
      this.#socket.write(respond());
      this.#lingeringClose();
    } else if (last === this.#current && !last.request.complete) {
      failBody(last.request, error);
    } else {
      if (!last.request.complete) this.#queue.pop();
      this.closeAfterReceived();
    }
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #begin(received: Received): void {
    const { request, response } = received;
    this.#current = received;
    response.once('close', () => this.#next());
    this.#handle(request, response);
  }

  #next(): void {
    const ended = this.#saidClose() || this.#socket.destroyed;
    this.#current = undefined;
    if (ended) {
      this.#closing = true;
      this.#queue.length = 0;
      return;
    }
    const next = this.#queue.shift();
    if (next !== undefined) this.#begin(next);
    else if (this.#closing) this.#lingeringClose();
    if (this.#queue.length < maxQueued && !this.#socket.destroyed) this.#socket.resume();
  }

  #last(): Received | undefined {
    return this.#queue.at(-1) ?? this.#current;
  }

  /** Whether the current response has told the client that it is the last one. */
  #saidClose(): boolean {
    const response = this.#current?.response;
    if (response === undefined || !response.headersSent) return false;
    return !response.shouldKeepAlive || response.getHeader('connection') === 'close';
  }

  #pauseIfFull(): void {
    if (!this.#closing && this.#queue.length >= maxQueued) this.#socket.pause();
  }

  /** Closing a socket with unread bytes resets it, and the client could lose the response (RFC 9112 section 9.6). */
  #readRestBeforeClose(): void {
    this.#socket.destroySoon = () => this.#lingeringClose();
  }

  #lingeringClose(): void {
    if (this.#lingering) return;
    this.#lingering = true;
    this.#closing = true;
    const socket = this.#socket;
    const destroy = (): void => void socket.destroy();
    if (socket.readableEnded) socket.once('finish', destroy);
    socket.end();
    const enough = socket.bytesRead + linger.bytes;
    // Read, but no longer parsed: thousands of requests may be among what follows.
    socket.removeAllListeners('data');
    socket.on('data', () => socket.bytesRead > enough && destroy());
    socket.once('end', destroy).resume();
    unlessClosed(socket, linger.milliseconds, destroy);
  }
}

/** By the next turn of the event loop, a handler that reads the body has begun to. */
function failBody(request: IncomingMessage, error: Error): void {
  setImmediate(() => request.listenerCount('error') > 0 && request.emit('error', error));
}
