import type { RequestListener, Server } from 'node:http';
import { Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import { SlotList } from '../../util/slot-list.ts';
import { Connection } from './connection.ts';
import { Turns } from './turns.ts';

/** Tracks every client connection of a server, from accept to close. */
export class ConnectionTracker {
  readonly byAddress = new AddressLimit();
  readonly #rejected: () => void;
  /** All accepted sockets, including those in a TLS handshake and those that are no longer handled as HTTP. */
  readonly #sockets = new SlotList<Socket>();
  readonly #connections = new SlotList<Connection>();
  readonly #bySocket = new WeakMap<Socket, Connection>();
  readonly #turns = new Turns();
  #draining = false;

  /** @param rejected called when a connection was closed because its address has too many */
  constructor(rejected: () => void = () => {}) {
    this.#rejected = rejected;
  }

  /** @param handle processes a request; called for one request per connection at a time */
  serve(server: Server, handle: RequestListener): void {
    server.on('connection', (socket: Socket) => {
      // Errors during a TLS handshake, or after CONNECT or an upgrade, have no other listener.
      socket.on('error', () => {}).once('close', this.#sockets.add(socket));
      if (this.byAddress.admits(socket)) return;
      socket.destroy();
      this.#rejected();
    });
    server.on(server instanceof HttpsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
      if (socket.destroyed) return;
      // A client may close its side (FIN) and still read the response, but not before a TLS handshake is complete.
      socket.allowHalfOpen = true;
      const connection = new Connection(socket, handle, this.#turns);
      if (this.#draining) connection.endWithNextResponse();
      this.#bySocket.set(socket, connection);
      socket.once('close', this.#connections.add(connection));
    });
    const receive: RequestListener = (request, response) =>
      this.connectionOf(request.socket)?.receive(request, response);
    server.on('request', receive);
    // Without these listeners Node would respond with "100 Continue" or 417 before the head is validated.
    server.on('checkContinue', receive).on('checkExpectation', receive);
  }

  /** `undefined` for a socket that never got to HTTP, such as one whose TLS handshake failed. */
  connectionOf(socket: Socket): Connection | undefined {
    return this.#bySocket.get(socket);
  }

  /** Requests are still processed, but each connection ends with its next response (`Connection: close`). */
  drain(): void {
    this.#draining = true;
    for (const connection of this.#connections.values()) connection.endWithNextResponse();
  }

  /** Closes idle connections now, and the others after the response to their current request. */
  close(): void {
    for (const connection of this.#connections.values()) connection.close();
  }

  /** Resolves when no connection is open. Those in a TLS handshake do not count, since they have no request. */
  closed(): Promise<void> {
    return this.#connections.empty();
  }

  destroyAll(): void {
    for (const socket of this.#sockets.values()) socket.destroy();
  }
}

/** Counts the open connections of each client address. It knows no address without one, so its memory is bounded. */
export class AddressLimit {
  /** Connections of one address. */
  limit = Number.POSITIVE_INFINITY;
  readonly #open = new Map<string, number>();

  /** @returns `false` if the address has as many connections as it may have */
  admits(socket: Socket): boolean {
    const address = addressOf(socket);
    const open = this.#open.get(address) ?? 0;
    if (open >= this.limit) return false;
    this.#open.set(address, open + 1);
    socket.once('close', () => this.#release(address));
    return true;
  }

  #release(address: string): void {
    const open = (this.#open.get(address) ?? 0) - 1;
    if (open > 0) this.#open.set(address, open);
    else this.#open.delete(address);
  }
}

/** On a socket for both families, IPv4 addresses are mapped (RFC 4291 section 2.5.5.2). */
function addressOf({ remoteAddress = 'gone' }: Socket): string {
  return remoteAddress.replace(/^::ffff:(?=\d+\.)/i, '');
}
