import { type ClientRequest, type IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { isParserError } from '../../errors.ts';
import type { ResponseFields } from '../../gateway/response.ts';
import { networkFailureOf } from '../../net/network-failure.ts';
import type { MemoryReservation } from '../limits.ts';
import { type Cause, type FailureReason, UpstreamError } from './upstream-error.ts';

/** A signed request, complete: exactly this is sent. */
export interface SignedHttpRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** ASCII. */
  readonly body: string;
}

export interface UpstreamRequestOptions {
  /** Milliseconds that a new connection may take, TLS included. */
  readonly connect: number;
  /** Milliseconds until the response is complete. */
  readonly total: number;
  /** Whether the request changes nothing, so that it can be repeated if the response was not whole. */
  readonly readOnly: boolean;
  /** Bounds how much of the response is buffered before the client gets its first byte. */
  readonly memory: MemoryReservation;
  /** Called once, before a byte of the request may be written. */
  readonly onConnected?: () => void;
}

export interface GatewayResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The whole body, or its first part if {@link rest} is set. */
  readonly body: Buffer;
  /** The body decoded, if it is a form. Added by the forwarder. */
  readonly form?: ResponseFields | undefined;
  /** Seconds that the clock of the gateway is ahead, if it is known. Added by the forwarder. */
  readonly clockSkew?: number | undefined;
  /**
   * The part after `body`, if the response is too large to buffer. It may be truncated: with an
   * {@link UpstreamError} at the timeout, otherwise with an error of the connection.
   */
  readonly rest?: IncomingMessage;
}

/** Responses up to this size are buffered whole before the client gets its first byte. */
const maxBufferedBytes = 1_048_576;

/** Up to this size they are buffered without a reservation of memory. Larger than any status response. */
const unreservedBytes = 65_536;

/**
 * One attempt at the gateway, with its own timeouts and state. It is detached from the client's connection: neither a
 * client that disconnects nor anything of the client's HTTP request affects it.
 */
export class UpstreamRequest {
  readonly detachedRequest: DetachedRequest;
  readonly detachedResponse: ServerResponse;
  readonly response: Promise<GatewayResponse>;
  readonly #resolve: (response: GatewayResponse) => void;
  readonly #reject: (failure: UpstreamError) => void;
  readonly #onConnected: (() => void) | undefined;
  readonly #connectTimeout: number;
  #connectTimer: NodeJS.Timeout | undefined;
  readonly #totalTimer: NodeJS.Timeout;
  #connected = false;
  #inHandshake = false;
  #pooled = false;
  #responded = false;
  readonly #readOnly: boolean;
  readonly #memory: MemoryReservation;
  #rest: IncomingMessage | undefined;

  constructor(signed: SignedHttpRequest, options: UpstreamRequestOptions) {
    const { connect, total, readOnly, memory, onConnected } = options;
    const { promise, resolve, reject } = Promise.withResolvers<GatewayResponse>();
    this.response = promise;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#readOnly = readOnly;
    this.#memory = memory;
    this.detachedRequest = new DetachedRequest(signed, this);
    this.detachedResponse = new ServerResponse(this.detachedRequest);
    this.#onConnected = onConnected;
    this.#connectTimeout = connect;
    this.#totalTimer = setTimeout(() => this.#fail('gateway-timeout', { unreachable: 'timeout' }), total);
  }

  /** The request has a socket, which may still be connecting. */
  onSocket(request: ClientRequest): void {
    this.#pooled = request.reusedSocket;
    request.on('upgrade', (_response, socket) => {
      socket.destroy();
      this.#fail('gateway-reply-invalid');
    });
    const { socket } = request;
    // Unless the socket is provably still connecting, the request may be written immediately.
    if (this.#pooled || socket === null || !socket.connecting) return this.#connect();
    const timedOut = (): void => this.#fail('gateway-unreachable', { unreachable: 'timeout' });
    this.#connectTimer = setTimeout(timedOut, this.#connectTimeout);
    if (!(socket instanceof TLSSocket)) return void socket.once('connect', () => this.#connect());
    socket.once('connect', () => {
      this.#inHandshake = true;
    });
    socket.once('secureConnect', () => this.#connect());
  }

  /** The headers of the response have been received. */
  onResponse(response: IncomingMessage): void {
    const { statusCode: status = 0, headers } = response;
    // RFC 9110 section 15: three digits, 100 or higher. Node's parser also accepts "099".
    if (status < 100) return this.#fail('gateway-reply-invalid');
    if (!this.#readOnly && endsWithConnection(response)) return this.#fail('gateway-reply-invalid');
    this.#responded = true;
    const chunks: Buffer[] = [];
    let size = 0;
    const head = { status, headers };
    const collect = (chunk: Buffer): void => {
      chunks.push(chunk);
      size += chunk.length;
      if (size <= unreservedBytes) return;
      // Buffered bytes count twice: as received, and concatenated.
      if (size <= maxBufferedBytes && this.#memory.reserve(2 * chunk.length)) return;
      response.off('data', collect).pause();
      this.#rest = response;
      this.#resolve({ ...head, body: Buffer.concat(chunks), rest: response });
    };
    response.on('data', collect);
    response.on('close', () => {
      clearTimeout(this.#totalTimer);
      if (response.complete) this.#resolve({ ...head, body: Buffer.concat(chunks) });
      else this.#fail('gateway-reset');
    });
  }

  /** The connection failed, or what was received is not valid HTTP. */
  onError(error: Error): void {
    const cause = networkFailureOf(error);
    const unreachable = cause === 'other' && this.#inHandshake ? 'tls' : cause;
    this.#fail(isParserError(error) ? 'gateway-reply-invalid' : 'gateway-reset', { unreachable, error });
  }

  /** For a process that ends without waiting for the response. */
  abort(): void {
    this.#fail('gateway-timeout');
  }

  #connect(): void {
    this.#connected = true;
    this.#onConnected?.();
    clearTimeout(this.#connectTimer);
  }

  /** Only the first failure counts. One after the response was returned truncates the rest of it. */
  #fail(reason: FailureReason, { unreachable = 'other', error }: Cause = {}): void {
    clearTimeout(this.#connectTimer);
    clearTimeout(this.#totalTimer);
    const stalePool = this.#pooled && !this.#responded && reason === 'gateway-reset';
    const failure = this.#connected
      ? new UpstreamError(reason, true, stalePool, { error })
      : new UpstreamError('gateway-unreachable', false, stalePool, { unreachable, error });
    this.#reject(failure);
    this.#rest?.destroy(failure);
    // The middleware destroys its own request and response when the response that it was given closes.
    this.detachedResponse.emit('close');
  }
}

/**
 * Whether nothing but the end of the connection ends the body (RFC 9112 section 6.3). Then a part of it looks like the
 * whole: TCP ends in the same way, and TLS too as far as Node says, with close_notify or without.
 */
function endsWithConnection({ statusCode, headers }: IncomingMessage): boolean {
  const { 'content-length': length, 'transfer-encoding': coding = '' } = headers;
  return (
    length === undefined && !/(^|,)[ \t]*chunked$/i.test(coding) && statusCode !== 204 && statusCode !== 304
  );
}

/** Never connected. A socket for each detached request would be most of its cost. */
const detachedSocket = new Socket();

/** The request that the middleware needs, built from ours alone. Refers back to its upstream request. */
export class DetachedRequest extends IncomingMessage {
  readonly upstreamRequest: UpstreamRequest;
  readonly #body: string;

  constructor(signed: SignedHttpRequest, upstreamRequest: UpstreamRequest) {
    super(detachedSocket);
    this.upstreamRequest = upstreamRequest;
    this.method = 'POST';
    this.url = signed.url.pathname;
    this.headers = signed.headers;
    this.#body = signed.body;
  }

  /** Sends the body at once. The middleware would wait for the events of a stream, which cost more than a signature. */
  override pipe<Destination extends NodeJS.WritableStream>(upstream: Destination): Destination {
    // As text, Node writes it in one piece with the head.
    upstream.end(this.#body, 'latin1');
    return upstream;
  }

  /** Leaves the shared socket alone. */
  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    callback(error);
  }

  /** The middleware discards what it did not send of a request whose response was early: there is nothing. */
  override resume(): this {
    return this;
  }
}
