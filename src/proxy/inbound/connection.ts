import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Bytes that are parsed at a time. Limits how many tiny requests can be parsed before the first one is processed. */
const sliceBytes = 512;

/** Bytes of one connection that are parsed before others have a turn. In chunks of single bytes they take 2 ms. */
const turnBytes = 4_096;

/** Bytes of a body that are parsed before its reader begins. A chunk of a single byte uses 400 bytes of memory. */
const unreadBytes = { plain: turnBytes, chunked: sliceBytes };

/** How long, and how many bytes, unwanted input is still read so that the client receives the response. */
const linger = { milliseconds: 1_000, bytes: 1_048_576 };

/** Steps in one turn of the event loop. Each takes up to 0.3 ms. */
const stepsPerTurn = 16;

/**
 * Does work that a thousand strangers can cause at once in small parts, so that it does not hold the event loop: between
 * them, known clients and the gateway's responses have their turn.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];

  /** Calls back in one of the next turns of the event loop, first come, first served. */
  wait(step: () => void): void {
    if (this.#waiting.push(step) === 1) setImmediate(() => this.#next());
  }

  #next(): void {
    const steps = this.#waiting.splice(0, stepsPerTurn);
    if (this.#waiting.length > 0) setImmediate(() => this.#next());
    for (const step of steps) step();
  }
}

interface Received {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/**
 * One client connection, which processes one request at a time: bytes after a request are not even parsed before its
 * response is written. So nothing after a response with `Connection: close` is processed (RFC 9112 section 9.6), and a
 * client that pipelines thousands of requests gets only its share of time and memory.
 */
export class Connection {
  readonly #socket: Socket;
  readonly #parse: (bytes: Buffer) => void;
  readonly #handle: (request: IncomingMessage, response: ServerResponse) => void;
  readonly #turns: Turns;
  /** Its last request was not rejected, so the next one need not wait behind those of strangers. */
  #known = false;
  /** It has waited for its turn, and what comes next is parsed. */
  #admitted = false;
  /** The request that is processed, and those of the same slice behind it. */
  readonly #requests: Received[] = [];
  /** The connection ends with the response to the current or the next request. */
  #last = false;
  /** No further request is processed. */
  #closing = false;
  /** The body of the current request will not be complete. */
  #failed = false;
  /** Bytes parsed since others had a turn. */
  #parsed = 0;
  /** Others have a turn. */
  #yields = false;
  /** Bytes read and discarded since our side was ended. */
  #discarded: number | undefined;

  /**
   * @param socket of an HTTP server, with an error listener: Node removes its own after CONNECT
   * @param handle processes a request; called for one request at a time
   * @param turns shared by the connections of a server
   */
  constructor(
    socket: Socket,
    handle: (request: IncomingMessage, response: ServerResponse) => void,
    turns: Turns,
  ) {
    this.#socket = socket;
    this.#handle = handle;
    this.#turns = turns;
    this.#parse = takeOverInput(socket, (chunk) => this.#read(chunk));
    // Node calls it after the last response. With unread input it would reset the connection, so that the client could
    // lose the response (RFC 9112 section 9.6).
    socket.destroySoon = () => this.#end();
  }

  /** A request was parsed, though its body may be incomplete. */
  receive(request: IncomingMessage, response: ServerResponse): void {
    if (this.#closing) return;
    this.#requests.push({ request, response });
    if (this.#requests.length === 1) this.#begin();
  }

  /** The connection ends with its next response, or with the current one. */
  endWithNextResponse(): void {
    this.#last = true;
    const response = this.#requests[0]?.response;
    if (response?.headersSent === false) response.setHeader('Connection', 'close');
  }

  /** Ends the connection with the response to its current request, or now if it is idle. */
  close(): void {
    this.#closing = true;
    if (this.#requests.length === 0) this.#end();
    else this.endWithNextResponse();
  }

  /**
   * The next bytes are not valid HTTP, are a CONNECT request, or did not arrive in time.
   *
   * @param respond returns the response to write; called only if no other response is pending
   */
  fail(error: Error, respond: () => string): void {
    if (this.#discarded !== undefined) return;
    const [current] = this.#requests;
    this.#closing = true;
    if (current === undefined) {
      this.#socket.write(respond());
      this.#end();
    } else if (current.request.complete) {
      this.close();
    } else {
      this.#failed = true;
      failBody(current.request, error);
    }
  }

  #begin(): void {
    const [current] = this.#requests;
    if (current === undefined) return;
    const { request, response } = current;
    // Node's parser cannot find the next request after one with an Upgrade header, and does not know that an HTTP/1.0
    // response without a length ends its connection.
    this.#closing ||= request.headers.upgrade !== undefined || request.httpVersion === '1.0';
    if (this.#closing || this.#last) response.setHeader('Connection', 'close');
    response.once('close', () => this.#finished(response));
    this.#handle(request, response);
  }

  #finished(response: ServerResponse): void {
    this.#requests.shift();
    this.#known = response.statusCode < 400;
    // What is held since then may be the rest of a head, whose time has begun and may be over.
    this.#admitted = this.#socket.isPaused();
    if (this.#socket.destroyed) return;
    const { headersSent, shouldKeepAlive } = response;
    // The client knows from the response that the connection ends with it.
    const ends = headersSent && (!shouldKeepAlive || response.getHeader('connection') === 'close');
    if (this.#closing || ends) {
      this.#requests.length = 0;
      this.#end();
      return;
    }
    this.#begin();
    this.#readOn();
  }

  #read(chunk: Buffer): void {
    let parsed = 0;
    if (this.#mustWait()) this.#yield();
    this.#admitted = false;
    for (; parsed < chunk.length && this.#wantsBytes(); parsed += sliceBytes) {
      this.#parse(chunk.length > sliceBytes ? chunk.subarray(parsed, parsed + sliceBytes) : chunk);
      this.#parsed += sliceBytes;
      if (this.#parsed >= turnBytes) this.#yield();
    }
    if (parsed >= chunk.length) return;
    const rest = chunk.subarray(parsed);
    if (this.#discarded === undefined) {
      // For later. Node may resume the socket before.
      this.#socket.pause();
      this.#socket.unshift(rest);
    } else {
      this.#discarded += rest.length;
      if (this.#discarded > linger.bytes) this.#socket.destroy();
    }
  }

  /** Lets other connections have a turn. */
  #yield(): void {
    this.#parsed = 0;
    this.#yields = true;
    const proceed = (): void => {
      this.#yields = false;
      this.#admitted = true;
      this.#readOn();
    };
    if (this.#known) setImmediate(proceed);
    else this.#turns.wait(proceed);
  }

  /** A request of a stranger begins or continues: a thousand of them can do so at once. */
  #mustWait(): boolean {
    return !this.#known && !this.#admitted && !this.#yields && !this.#closing && this.#requests.length === 0;
  }

  #readOn(): void {
    if (this.#socket.isPaused() && this.#wantsBytes()) this.#socket.resume();
  }

  /** Either the current request is incomplete, or no response is pending and the next request may come. */
  #wantsBytes(): boolean {
    if (this.#socket.destroyed || this.#failed || this.#yields) return false;
    const [current] = this.#requests;
    return current === undefined ? !this.#closing : wantsBody(current.request);
  }

  /** Ends our side, and reads what the client still sends. */
  #end(): void {
    if (this.#discarded !== undefined) return;
    this.#discarded = 0;
    this.#closing = true;
    // If the client has closed its side too, Node destroys the socket.
    const timer = setTimeout(() => this.#socket.destroy(), linger.milliseconds);
    this.#socket.once('close', () => clearTimeout(timer));
    this.#socket.end();
    this.#socket.resume();
  }
}

/**
 * Takes over a socket's input from Node's HTTP parser. By itself the parser handles everything that one read returned,
 * which can be thousands of pipelined requests.
 *
 * @param socket that an HTTP server has just started to read from
 * @returns gives bytes to the parser
 * @throws TypeError if no HTTP server reads from the socket
 */
function takeOverInput(socket: Socket, read: (chunk: Buffer) => void): (bytes: Buffer) => void {
  const parse: unknown = socket.listeners('data').at(-1);
  if (!isListener(parse)) throw new TypeError('no HTTP server reads this socket');
  // In this order, because a socket without a data listener stops flowing.
  socket.on('data', read).off('data', parse);
  return parse;
}

/** Node resumes the socket when the body begins to be read. */
function wantsBody({ complete, readableFlowing, readableLength, headers }: IncomingMessage): boolean {
  if (complete || readableFlowing === true) return !complete;
  return (
    readableLength < (headers['transfer-encoding'] === undefined ? unreadBytes.plain : unreadBytes.chunked)
  );
}

/** It needs no `this`. */
function isListener(value: unknown): value is (...values: unknown[]) => void {
  return typeof value === 'function';
}

/** Reports an error of a body to its reader, which may begin only after the caller is authenticated. */
function failBody(request: IncomingMessage, error: Error): void {
  setImmediate(() => {
    if (request.listenerCount('error') > 0) request.emit('error', error);
    else request.once('newListener', () => failBody(request, error));
  });
}
