import { type ClientRequest, type IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Reason } from '../../errors.ts';
import { type NetworkFailure, networkFailureOf } from '../../util/network-failure.ts';
import type { MemoryReservation } from '../memory-budget.ts';

/** A complete, signed request: what is here is what goes over the wire, and nothing else. */
export interface SignedHttpRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Limits of one request to the gateway. */
export interface UpstreamRequestOptions {
  /** Milliseconds from now until there is a connection. */
  readonly connect: number;
  /** Milliseconds from now until the end of the response. */
  readonly total: number;
  /** Bounds how much of the response is held before the caller gets its first byte. */
  readonly memory: MemoryReservation;
  /** Called once, as soon as a byte of the request may be written. */
  readonly onConnected?: () => void;
}

/** What the gateway answered. */
export interface GatewayResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The whole body, or its beginning where {@link rest} is set. */
  readonly body: Buffer;
  /**
   * What comes after `body` of a reply that is too large to be held. May break off: with a
   * {@link UpstreamError} at the deadline, otherwise with an error of the connection.
   */
  readonly rest?: IncomingMessage;
}

type FailureReason = Extract<Reason, `gateway-${string}`>;

/** No usable answer came. */
export class UpstreamError extends Error {
  override readonly name = 'CrossingFailure';
  readonly reason: FailureReason;
  /** `false` only where it is provable that no byte of the request was written. */
  readonly written: boolean;
  /** A kept-alive connection broke before any byte of a reply: most likely it was closed while idle. */
  readonly stalePool: boolean;
  /** Why no connection could be made; set for `gateway-unreachable` only. */
  readonly unreachable: NetworkFailure | undefined;

  constructor(reason: FailureReason, written: boolean, stalePool: boolean, unreachable?: NetworkFailure) {
    super(reason);
    this.reason = reason;
    this.written = written;
    this.stalePool = stalePool;
    this.unreachable = unreachable;
  }
}

/** Replies up to this many bytes are read whole before the caller gets its first byte. */
const maxBufferedBytes = 1_048_576;

/** Of these many bytes that is so whatever else is in memory; more than any status response has. */
const unreservedBytes = 65_536;

/**
 * One request on its way to the gateway and back, with its own timeouts and its own idea of what has
 * happened. Request and response are detached from the caller's connection: a caller who hangs up does not
 * reach the gateway, and nothing of the caller's request can.
 */
export class UpstreamRequest {
  readonly detachedRequest: DetachedRequest;
  readonly detachedResponse: ServerResponse;
  readonly response: Promise<GatewayResponse>;
  readonly #resolve: (reply: GatewayResponse) => void;
  readonly #reject: (failure: UpstreamError) => void;
  readonly #onConnected: (() => void) | undefined;
  readonly #connectTimer: NodeJS.Timeout;
  readonly #exchangeTimer: NodeJS.Timeout;
  #connected = false;
  #inHandshake = false;
  #pooled = false;
  #replied = false;
  readonly #memory: MemoryReservation;
  #rest: IncomingMessage | undefined;

  constructor(
    post: SignedHttpRequest,
    { connect, total: exchange, memory, onConnected }: UpstreamRequestOptions,
  ) {
    const { promise, resolve, reject } = Promise.withResolvers<GatewayResponse>();
    this.response = promise;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#memory = memory;
    this.detachedRequest = new DetachedRequest(post, this);
    this.detachedResponse = new ServerResponse(this.detachedRequest);
    this.#onConnected = onConnected;
    this.#connectTimer = setTimeout(() => this.#fail('gateway-unreachable', 'timeout'), connect);
    this.#exchangeTimer = setTimeout(() => this.#fail('gateway-timeout', 'timeout'), exchange);
  }

  /** A socket was found for the request; it may still have to connect. */
  onSocket(request: ClientRequest): void {
    this.#pooled = request.reusedSocket;
    request.once('upgrade', (_reply, socket) => {
      socket.destroy();
      this.#fail('gateway-reply-invalid');
    });
    const { socket } = request;
    // Without a proof that it still has to connect, the request may be written at once.
    if (this.#pooled || socket === null || !socket.connecting) return this.#connect();
    if (!(socket instanceof TLSSocket)) return void socket.once('connect', () => this.#connect());
    socket.once('connect', () => {
      this.#inHandshake = true;
    });
    socket.once('secureConnect', () => this.#connect());
  }

  /** The head of the reply is there. */
  onResponse(reply: IncomingMessage): void {
    const { statusCode: status = 0, headers } = reply;
    // RFC 9110 section 15: three digits from 100 on. Node's parser takes "099" too.
    if (status < 100) return this.#fail('gateway-reply-invalid');
    this.#replied = true;
    const chunks: Buffer[] = [];
    let size = 0;
    const head = { status, headers };
    const keep = (chunk: Buffer): void => {
      chunks.push(chunk);
      size += chunk.length;
      if (size <= maxBufferedBytes && this.#mayHold(size, chunk.length)) return;
      reply.off('data', keep).pause();
      this.#rest = reply;
      this.#resolve({ ...head, body: Buffer.concat(chunks), rest: reply });
    };
    reply.on('data', keep);
    reply.once('close', () => {
      clearTimeout(this.#exchangeTimer);
      if (reply.complete) this.#resolve({ ...head, body: Buffer.concat(chunks) });
      else this.#fail('gateway-reset');
    });
  }

  /** The connection, or what came over it, failed. */
  onError(error: Error): void {
    const garbled = 'code' in error && String(error.code).startsWith('HPE_');
    const cause = networkFailureOf(error);
    const unreachable = cause === 'other' && this.#inHandshake ? 'tls' : cause;
    this.#fail(garbled ? 'gateway-reply-invalid' : 'gateway-reset', unreachable);
  }

  /** The process ends and waits no longer. */
  abort(): void {
    this.#fail('gateway-timeout');
  }

  /** Bytes are held as they come, and once more in one piece. */
  #mayHold(size: number, added: number): boolean {
    return size <= unreservedBytes || this.#memory.reserve(2 * added);
  }

  #connect(): void {
    this.#connected = true;
    this.#onConnected?.();
    clearTimeout(this.#connectTimer);
  }

  /** The first failure counts; one that comes after the reply was handed over breaks off what is left of it. */
  #fail(reason: FailureReason, unreachable: NetworkFailure = 'other'): void {
    clearTimeout(this.#connectTimer);
    clearTimeout(this.#exchangeTimer);
    const stalePool = this.#pooled && !this.#replied && reason === 'gateway-reset';
    const failure = this.#connected
      ? new UpstreamError(reason, true, stalePool)
      : new UpstreamError('gateway-unreachable', false, stalePool, unreachable);
    this.#reject(failure);
    this.#rest?.destroy(failure);
    // The middleware destroys its request and reply when the response it was given closes.
    this.detachedResponse.emit('close');
  }
}

/** A request as the middleware wants it, of which every part is ours; it leads back to its crossing. */
export class DetachedRequest extends IncomingMessage {
  readonly upstreamRequest: UpstreamRequest;

  constructor(post: SignedHttpRequest, crossing: UpstreamRequest) {
    super(new Socket());
    this.upstreamRequest = crossing;
    this.method = 'POST';
    this.url = post.url.pathname;
    this.headers = { ...post.headers };
    this.push(post.body);
    this.push(null);
    this.complete = true;
  }
}
