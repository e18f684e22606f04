import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/**
 * What may come over a connection after a request: nothing is answered in the place of an earlier request,
 * and nothing is carried out whose answer could not be given any more.
 */
export class OneByOne {
  readonly #latest = new WeakMap<Duplex, { request: IncomingMessage; response: ServerResponse }>();

  readonly #ending = new WeakSet<Duplex>();

  /** RFC 9112 section 9.6: whoever has said "close" processes no further request of the connection. */
  guard(handle: RequestListener): RequestListener {
    return (request, response) => {
      const { socket } = request;
      const saidClose = this.#latest.get(socket)?.response.getHeader('connection') === 'close';
      if (saidClose || this.#ending.has(socket)) return;
      this.#latest.set(socket, { request, response });
      handle(request, response);
    };
  }

  /** Ends the connection with the last of the requests that are under way on it, or now. */
  endWith(socket: Duplex): void {
    const { response } = this.#latest.get(socket) ?? {};
    this.#ending.add(socket);
    if (response === undefined || response.closed) socket.destroy();
    else if (response.headersSent) response.once('close', () => socket.end());
    else response.setHeader('Connection', 'close');
  }

  /**
   * Bytes that cannot be read as HTTP, or as a request that is served. In the middle of a request, whoever
   * reads it is told, in a moment when there has been time to begin; behind one, its answer is waited for and
   * is the last of the connection.
   *
   * @param answer called when no request is under way on the connection
   */
  interrupt(error: Error, socket: Duplex, answer: () => void): void {
    const { request, response } = this.#latest.get(socket) ?? {};
    if (request === undefined || response === undefined || response.closed) {
      answer();
    } else if (request.complete) {
      response.once('close', () => socket.end());
    } else {
      setImmediate(() => request.listenerCount('error') > 0 && request.emit('error', error));
    }
  }
}
