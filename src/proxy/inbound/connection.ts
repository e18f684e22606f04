import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { MemoryReservation } from '../memory-budget.ts';
import { announcesClose } from './abort-response.ts';
import { failBody } from './fail-body.ts';
import { type HttpParser, takeOverParser } from './http-parser.ts';
import { LateHead } from './late-head.ts';
import { LingeringClose } from './lingering-close.ts';
import { ReadAhead } from './read-ahead.ts';

export interface ConnectionOptions {
  /** Bounds what is read ahead. */
  readonly memory: MemoryReservation;
  /** Milliseconds for the head of a request. */
  readonly headTimeout: number;
}

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
  readonly #parser: HttpParser;
  readonly #handle: (request: IncomingMessage, response: ServerResponse) => void;
  readonly #ahead: ReadAhead;
  readonly #linger: LingeringClose;
  readonly #lateHead: LateHead;
  /** The client has closed its side. Requests received before are still processed. */
  #ended = false;
  /** Requests that were parsed ahead, because they were in the same slice as another one. */
  readonly #queue: Received[] = [];
  #current: Received | undefined;
  /** No further requests are accepted. Those already accepted are still processed. */
  #closing = false;
  /** Input was discarded. */
  #discarded = false;
  /** Node's parser has failed, or may already belong to another connection. */
  #parserGone = false;
  #paused = false;

  /**
   * @param socket must have an error listener: Node removes its own after CONNECT
   * @param handle processes a request; called for one request at a time
   */
  constructor(
    socket: Socket,
    handle: (request: IncomingMessage, response: ServerResponse) => void,
    { memory, headTimeout }: ConnectionOptions,
  ) {
    this.#socket = socket;
    this.#handle = handle;
    this.#ahead = new ReadAhead(memory);
    this.#linger = new LingeringClose(socket);
    this.#lateHead = new LateHead(socket, headTimeout);
    socket.once('close', () => this.#ahead.discard());
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
    this.#lateHead.clear();
    // Node's parser cannot find the next request after one with an Upgrade header, and does not know that an HTTP/1.0
    // response without a length ends its connection.
    if (request.headers.upgrade !== undefined || request.httpVersion === '1.0') this.#closing = true;
    // The previous response is no longer the last one, unless its head was already sent.
    const before = this.#last()?.response;
    if (draining && before?.headersSent === false) before.removeHeader('Connection');
    const isLast = draining && this.#ahead.isEmpty;
    if (this.#closing || isLast) response.setHeader('Connection', 'close');
    if (this.#current !== undefined) this.#queue.push({ request, response });
    else this.#begin({ request, response });
  }

  /** Sets `Connection: close` on the last pending response, if there is one. */
  announceClose(): void {
    const response = this.#last()?.response;
    if (this.#ahead.isEmpty && response?.headersSent === false) response.setHeader('Connection', 'close');
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
    if (this.#linger.begun) return;
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

  /**
   * Node's time for the request that is being parsed is over. The handler limits that of a queued one's body.
   *
   * @param respond as for {@link fail}
   */
  timeOut(error: Error, respond: () => string): void {
    const last = this.#last();
    const reject = (): void => this.fail(error, respond);
    if (last === undefined) this.#lateHead.rejectInTime(reject);
    else if (last.request.complete) this.#lateHead.waitForTurn(reject);
    else if (last === this.#current) reject();
  }

  #begin(received: Received): void {
    const { request, response } = received;
    this.#current = received;
    response.once('close', () => this.#next());
    this.#handle(request, response);
  }

  #next(): void {
    const isLast = this.#current !== undefined && announcesClose(this.#current.response);
    this.#current = undefined;
    if (this.#socket.destroyed) return;
    if (isLast) {
      // Node ends the socket.
      this.#closing = true;
      this.#queue.length = 0;
      return;
    }
    const next = this.#queue.shift();
    if (next !== undefined) this.#beginQueued(next);
    else if (this.#closing) this.#lingeringClose();
    else this.#parseNext();
  }

  #parseNext(): void {
    this.#parse();
    if (this.#current === undefined) this.#lateHead.beginTurn();
  }

  /** The rest of its body, or the end of the connection, may have arrived meanwhile. */
  #beginQueued(received: Received): void {
    this.#begin(received);
    if (!received.request.complete) this.#parse();
  }

  #last(): Received | undefined {
    return this.#queue.at(-1) ?? this.#current;
  }

  #read(chunk: Buffer): void {
    if (this.#linger.begun) {
      this.#linger.discard(chunk);
      return;
    }
    const isAhead = !this.#wantsBytes();
    this.#ahead.add(chunk);
    this.#parse();
    // A client that sends nothing ahead is never paused: that would cost two system calls per request.
    if (isAhead || !this.#ahead.isEmpty) this.#pauseUnlessWanted();
  }

  #readEnd(): void {
    this.#ended = true;
    if (this.#linger.begun) this.#socket.destroy();
    else this.#parse();
  }

  /** Parses bytes that were read, up to the end of a request. */
  #parse(): void {
    while (this.#wantsBytes()) {
      const slice = this.#ahead.take();
      if (slice === undefined) break;
      this.#parser.parse(slice);
    }
    if (this.#closing) this.#discardUnparsed();
    else if (!this.#ahead.reserve()) this.closeAfterReceived();
    if (this.#ended && this.#ahead.isEmpty && this.#wantsBytes()) {
      this.#parserGone = true;
      this.#parser.finish();
    }
    if (this.#paused && this.#wantsBytes()) {
      this.#paused = false;
      this.#socket.resume();
    }
  }

  #discardUnparsed(): void {
    this.#discarded ||= !this.#ahead.isEmpty;
    this.#ahead.discard();
  }

  /** Either the current request is incomplete, or no response is pending and the next request may come. */
  #wantsBytes(): boolean {
    if (this.#parserGone || this.#socket.destroyed || this.#queue.length > 0) return false;
    return this.#current === undefined ? !this.#closing : !this.#current.request.complete;
  }

  #pauseUnlessWanted(): void {
    if (this.#linger.begun || this.#wantsBytes() || this.#socket.isPaused()) return;
    this.#paused = true;
    this.#socket.pause();
  }

  #hasUnreadInput(): boolean {
    return this.#discarded || !this.#ahead.isEmpty || this.#queue.length > 0;
  }

  #lingeringClose(): void {
    if (this.#linger.begun) return;
    this.#closing = true;
    this.#discardUnparsed();
    this.#linger.begin();
  }
}
