import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { MemoryReservation } from '../memory-budget.ts';
import { onTimeoutUnlessClosed } from './abort-response.ts';
import { failBody } from './fail-body.ts';
import { type HttpParser, takeOverParser } from './http-parser.ts';

/** How long, and how many bytes, unwanted input is still read so that the client receives the response. */
export const linger = { milliseconds: 1_000, bytes: 1_048_576 };

/** Bytes that are parsed at a time. Limits how many tiny requests can be parsed ahead. */
const sliceBytes = 1_024;

interface Received {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/**
 * One client connection, which processes one request at a time: bytes after a request are not even parsed before its
 * response is written. So a request after a response with `Connection: close` is never processed (RFC 9112 section
 * 9.6), no response is lost because an earlier one closed the connection, and a client that pipelines thousands of
 * requests gets only its share of time and memory.
 */
export class Connection {
  readonly #socket: Socket;
  readonly #memory: MemoryReservation;
  readonly #parser: HttpParser;
  readonly #handle: (request: IncomingMessage, response: ServerResponse) => void;
  /** Bytes that were read ahead. */
  #unparsed: Buffer | undefined;
  /** The client has closed its side. Requests received before are still processed. */
  #ended = false;
  /** Requests that were parsed ahead, because they were in the same slice as another one. */
  readonly #queue: Received[] = [];
  #current: Received | undefined;
  /** No further requests are accepted. Those already accepted are still processed. */
  #closing = false;
  #lingering = false;
  /** Input was discarded. */
  #discarded = false;
  /** Node's parser has failed, or may already belong to another connection. */
  #parserGone = false;
  #paused = false;
  #lingeredBytes = 0;

  /**
   * @param socket must have an error listener: Node removes its own after CONNECT
   * @param handle processes a request; called for one request at a time
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
    socket.on('resume', () => this.#paused && this.#pauseUnlessWanted());
    // Closing a socket with unread bytes resets it, so the client could lose the response (RFC 9112 section 9.6).
    const destroySoon = socket.destroySoon.bind(socket);
    socket.destroySoon = () => (this.#hasUnreadInput() ? this.#lingeringClose() : destroySoon());
  }

  /** @param draining close the connection after the last request received so far */
  receive(request: IncomingMessage, response: ServerResponse, draining: boolean): void {
    if (this.#closing) {
      this.#discarded = true;
      return;
    }
    // Node's parser cannot find the next request after one with an Upgrade header, and does not know that an HTTP/1.0
    // response without a length ends its connection.
    if (request.headers.upgrade !== undefined || request.httpVersion === '1.0') this.#closing = true;
    // The previous response is no longer the last one, unless its head was already sent.
    const before = this.#last()?.response;
    if (draining && before?.headersSent === false) before.removeHeader('Connection');
    const isLast = draining && this.#unparsed === undefined;
    if (this.#closing || isLast) response.setHeader('Connection', 'close');
    if (this.#current !== undefined) this.#queue.push({ request, response });
    else this.#begin({ request, response });
  }

  /** Sets `Connection: close` on the last pending response, if there is one. */
  announceClose(): void {
    const response = this.#last()?.response;
    if (this.#unparsed === undefined && response?.headersSent === false)
      response.setHeader('Connection', 'close');
  }

  /** Closes the connection after the response to the last request received, or now if none is pending. */
  closeAfterReceived(): void {
    this.#closing = true;
    this.#discardUnparsed();
    if (this.#current === undefined) this.#lingeringClose();
    else this.announceClose();
  }

  /** Closes the connection after the response to the current request. Queued requests are not processed. */
  closeAfterCurrent(): void {
    this.#queue.length = 0;
    this.closeAfterReceived();
  }

  /**
   * The next bytes are not valid HTTP, or are a CONNECT request. Responses to earlier requests are written first.
   *
   * @param respond returns the response to write; called only if no other response is pending
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
    const closeAnnounced = this.#announcedClose();
    this.#current = undefined;
    if (this.#socket.destroyed) return;
    if (closeAnnounced) {
      // Node ends the socket.
      this.#closing = true;
      this.#queue.length = 0;
      return;
    }
    const next = this.#queue.shift();
    if (next !== undefined) this.#beginQueued(next);
    else if (this.#closing) this.#lingeringClose();
    else this.#parse();
  }

  /** The rest of its body, or the end of the connection, may have arrived meanwhile. */
  #beginQueued(received: Received): void {
    this.#begin(received);
    if (!received.request.complete) this.#parse();
  }

  #last(): Received | undefined {
    return this.#queue.at(-1) ?? this.#current;
  }

  /** Whether the current response has announced the end of the connection to the client. */
  #announcedClose(): boolean {
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
    const isAhead = !this.#wantsBytes();
    this.#unparsed = this.#unparsed === undefined ? chunk : Buffer.concat([this.#unparsed, chunk]);
    this.#parse();
    // A client that sends nothing ahead is never paused: that would cost two system calls per request.
    if (isAhead || this.#unparsed !== undefined) this.#pauseUnlessWanted();
  }

  #readEnd(): void {
    this.#ended = true;
    if (this.#lingering) this.#socket.destroy();
    else this.#parse();
  }

  /** Parses bytes that were read, up to the end of a request. */
  #parse(): void {
    while (this.#unparsed !== undefined && this.#wantsBytes()) {
      const bytes = this.#unparsed;
      this.#unparsed = bytes.length > sliceBytes ? bytes.subarray(sliceBytes) : undefined;
      this.#parser.parse(bytes.length > sliceBytes ? bytes.subarray(0, sliceBytes) : bytes);
    }
    if (this.#closing) this.#discardUnparsed();
    else if (!this.#mayHoldUnparsed()) this.closeAfterReceived();
    if (this.#ended && this.#unparsed === undefined && this.#wantsBytes()) {
      this.#parserGone = true;
      this.#parser.finish();
    }
    if (this.#paused && this.#wantsBytes()) {
      this.#paused = false;
      this.#socket.resume();
    }
  }

  #mayHoldUnparsed(): boolean {
    this.#memory.release();
    return this.#unparsed === undefined || this.#memory.reserve(this.#unparsed.length);
  }

  #discardUnparsed(): void {
    this.#discarded ||= this.#unparsed !== undefined;
    this.#unparsed = undefined;
    this.#memory.release();
  }

  /** Either the current request is incomplete, or no response is pending and the next request may come. */
  #wantsBytes(): boolean {
    if (this.#parserGone || this.#socket.destroyed || this.#queue.length > 0) return false;
    return this.#current === undefined ? !this.#closing : !this.#current.request.complete;
  }

  #pauseUnlessWanted(): void {
    if (this.#lingering || this.#wantsBytes() || this.#socket.isPaused()) return;
    this.#paused = true;
    this.#socket.pause();
  }

  #hasUnreadInput(): boolean {
    return this.#discarded || this.#unparsed !== undefined || this.#queue.length > 0;
  }

  #lingeringClose(): void {
    if (this.#lingering) return;
    this.#lingering = true;
    this.#closing = true;
    this.#discardUnparsed();
    const socket = this.#socket;
    socket.end();
    socket.resume();
    // If the client has closed its side too, Node destroys the socket.
    onTimeoutUnlessClosed(socket, linger.milliseconds, () => void socket.destroy());
  }
}
