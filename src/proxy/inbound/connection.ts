import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { MemoryReservation } from '../memory-budget.ts';
import { onTimeoutUnlessClosed } from './abort-response.ts';
import { type HttpParser, takeOverParser } from './http-parser.ts';

/** How long, and how much of, what is unwanted is still read, so that the client sees the response (milliseconds). */
export const linger = { milliseconds: 1_000, bytes: 1_048_576 };

/** Bytes that are parsed at a time: so many requests of the smallest size may be among them, and no more. */
const sliceBytes = 1_024;

interface Received {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/**
 * One client connection, whose requests are processed one at a time: what comes behind a request is not even parsed
 * before the response to it has been written. So a request behind a response that said `Connection: close` is never
 * processed (RFC 9112 section 9.6), no response is lost because an earlier one ended the connection, and a client that
 * pipelines thousands of requests gets no more than its share of time and memory.
 */
export class Connection {
  readonly #socket: Socket;
  readonly #memory: MemoryReservation;
  readonly #parser: HttpParser;
  readonly #handle: (request: IncomingMessage, response: ServerResponse) => void;
  /** Bytes that were read ahead of their turn. */
  #unparsed: Buffer | undefined;
  /** The client has ended its side; its requests are still processed. */
  #ended = false;
  /** Requests that were parsed ahead of their turn, since they came in one slice with another. */
  readonly #queue: Received[] = [];
  #current: Received | undefined;
  /** No further requests are accepted; what was accepted is still processed. */
  #closing = false;
  #lingering = false;
  /** Bytes were read that are not processed. */
  #ignored = false;
  /** Node's parser has given up, or may belong to another connection already. */
  #parserGone = false;
  #pausedHere = false;
  #lingeredBytes = 0;

  /**
   * @param socket has a listener for errors: Node detaches its own when the socket leaves HTTP (CONNECT)
   * @param handle processes one request; called for one at a time
   * @param memory bounds what is read ahead
   */
  constructor(
    socket: Socket,
    handle: (request: IncomingMessage, response: ServerResponse) => void,
    memory: MemoryReservation,
  ) {
    this.#socket = socket;
    this.#handle = handle;
    this.#memory = memory;
    socket.once('close', () => memory.release());
    this.#parser = takeOverParser(socket, {
      data: (chunk) => this.#read(chunk),
      end: () => this.#readEnd(),
    });
    // Node resumes the socket when a body is read.
    socket.on('resume', () => this.#pauseUnlessWanted());
    // Closing a socket with unread bytes resets it, and the client could lose the response (RFC 9112 section 9.6).
    const destroySoon = socket.destroySoon.bind(socket);
    socket.destroySoon = () => (this.#hasRest() ? this.#lingeringClose() : destroySoon());
  }

  /** @param draining whether the connection should end with the last of the requests received by then */
  receive(request: IncomingMessage, response: ServerResponse, draining: boolean): void {
    if (this.#closing) {
      this.#ignored = true;
      return;
    }
    // Node's parser does not find the next request behind one that asks for an upgrade, and does not know that an
    // HTTP/1.0 response without a length ends its connection.
    if (request.headers.upgrade !== undefined || request.httpVersion === '1.0') this.#closing = true;
    // The response that was to be the last is not the last any more, unless its head was sent already.
    const before = this.#last()?.response;
    if (draining && before?.headersSent === false) before.removeHeader('Connection');
    const isLast = draining && this.#unparsed === undefined;
    if (this.#closing || isLast) response.setHeader('Connection', 'close');
    if (this.#current !== undefined) this.#queue.push({ request, response });
    else this.#begin({ request, response });
  }

  /** The last of the responses that the client waits for, if there is one, says `Connection: close`. */
  announceClose(): void {
    const response = this.#last()?.response;
    if (this.#unparsed === undefined && response?.headersSent === false)
      response.setHeader('Connection', 'close');
  }

  /** Ends the connection with the response to the last request received, or now if there is none. */
  closeAfterReceived(): void {
    this.#closing = true;
    this.#ignoreUnparsed();
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
    this.#parserGone = true;
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

  #begin(received: Received): void {
    const { request, response } = received;
    this.#current = received;
    response.once('close', () => this.#next());
    this.#handle(request, response);
  }

  #next(): void {
    const saidClose = this.#saidClose();
    this.#current = undefined;
    if (this.#socket.destroyed) return;
    if (saidClose) {
      // Node ends the socket.
      this.#closing = true;
      this.#queue.length = 0;
      return;
    }
    const next = this.#queue.shift();
    if (next !== undefined) this.#begin(next);
    else if (this.#closing) this.#lingeringClose();
    else this.#parse();
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

  #read(chunk: Buffer): void {
    if (this.#lingering) {
      this.#lingeredBytes += chunk.length;
      if (this.#lingeredBytes > linger.bytes) this.#socket.destroy();
      return;
    }
    this.#unparsed = this.#unparsed === undefined ? chunk : Buffer.concat([this.#unparsed, chunk]);
    this.#parse();
  }

  #readEnd(): void {
    this.#ended = true;
    if (this.#lingering) this.#socket.destroy();
    else this.#parse();
  }

  /** Parses what was read, up to the end of a request. */
  #parse(): void {
    while (this.#unparsed !== undefined && this.#wantsBytes()) {
      const bytes = this.#unparsed;
      this.#unparsed = bytes.length > sliceBytes ? bytes.subarray(sliceBytes) : undefined;
      this.#parser.parse(bytes.length > sliceBytes ? bytes.subarray(0, sliceBytes) : bytes);
    }
    if (this.#closing) this.#ignoreUnparsed();
    else if (!this.#mayHoldUnparsed()) this.closeAfterReceived();
    if (this.#ended && this.#unparsed === undefined && this.#wantsBytes()) {
      this.#parserGone = true;
      this.#parser.finish();
    }
    this.#pauseUnlessWanted();
    if (this.#pausedHere && this.#wantsBytes()) {
      this.#pausedHere = false;
      this.#socket.resume();
    }
  }

  #mayHoldUnparsed(): boolean {
    this.#memory.release();
    return this.#unparsed === undefined || this.#memory.reserve(this.#unparsed.length);
  }

  #ignoreUnparsed(): void {
    this.#ignored ||= this.#unparsed !== undefined;
    this.#unparsed = undefined;
    this.#memory.release();
  }

  /** The bytes of a request whose body is still coming, or of the next one when no response is outstanding. */
  #wantsBytes(): boolean {
    if (this.#parserGone || this.#socket.destroyed || this.#queue.length > 0) return false;
    return this.#current === undefined ? !this.#closing : !this.#current.request.complete;
  }

  #pauseUnlessWanted(): void {
    if (this.#lingering || this.#wantsBytes() || this.#socket.isPaused()) return;
    this.#pausedHere = true;
    this.#socket.pause();
  }

  #hasRest(): boolean {
    return this.#ignored || this.#unparsed !== undefined || this.#queue.length > 0;
  }

  #lingeringClose(): void {
    if (this.#lingering) return;
    this.#lingering = true;
    this.#closing = true;
    this.#ignoreUnparsed();
    const socket = this.#socket;
    socket.end();
    socket.resume();
    // Where the client has ended its side too, Node destroys the socket.
    onTimeoutUnlessClosed(socket, linger.milliseconds, () => void socket.destroy());
  }
}

/** By the next turn of the event loop, a handler that reads the body has begun to. */
function failBody(request: IncomingMessage, error: Error): void {
  setImmediate(() => request.listenerCount('error') > 0 && request.emit('error', error));
}
