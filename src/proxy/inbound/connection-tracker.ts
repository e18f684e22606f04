import type { RequestListener, Server } from 'node:http';
import { Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import { SlotList } from '../../util/slot-list.ts';
import type { MemoryBudget } from '../memory-budget.ts';
import { Connection } from './connection.ts';

/** Every client connection of a server, from its acceptance to its close. */
export class ConnectionTracker {
  /** Accepted sockets, those of unfinished TLS handshakes and those that left HTTP included. */
  readonly #sockets = new SlotList<Socket>();
  readonly #connections = new SlotList<Connection>();
  readonly #bySocket = new WeakMap<Socket, Connection>();
  #open = 0;
  #allClosed: PromiseWithResolvers<void> | undefined;
  #draining = false;

  readonly #memory: MemoryBudget;

  /** @param memory bounds what is read ahead */
  constructor(memory: MemoryBudget) {
    this.#memory = memory;
  }

  /** @param handle processes one request; called for one request of a connection at a time */
  serve(server: Server, handle: RequestListener): void {
    server.on('connection', (socket: Socket) => {
      // An error during a TLS handshake, or after the socket has left HTTP, has no other listener.
      socket.on('error', () => {}).once('close', this.#sockets.add(socket));
    });
    server.on(server instanceof HttpsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
      // A client may say that it sends no more (FIN) and still read; not before a TLS handshake is complete.
      socket.allowHalfOpen = true;
      const connection = new Connection(socket, handle, this.#memory.reservation());
      this.#bySocket.set(socket, connection);
      const leave = this.#connections.add(connection);
      this.#open += 1;
      socket.once('close', () => this.#closed(leave));
    });
    const receive: RequestListener = (request, response) =>
      this.connectionOf(request.socket)?.receive(request, response, this.#draining);
    server.on('request', receive);
    // Without these listeners Node says "100 Continue", or 417, before the head was checked.
    server.on('checkContinue', receive).on('checkExpectation', receive);
  }

  /** `undefined` for a socket that never got as far as HTTP. */
  connectionOf(socket: Socket): Connection | undefined {
    return this.#bySocket.get(socket);
  }

  /** Requests are still processed; each connection ends with its next response, which says `Connection: close`. */
  drain(): void {
    this.#draining = true;
    for (const connection of this.#connections.values()) connection.announceClose();
  }

  /** Ends idle connections now, and the others with the response to the last request received. */
  closeAfterReceived(): void {
    for (const connection of this.#connections.values()) connection.closeAfterReceived();
  }

  /** Ends idle connections now, and the others with the response to their current request. */
  closeAfterCurrent(): void {
    for (const connection of this.#connections.values()) connection.closeAfterCurrent();
  }

  /** Resolves when no connection is open. One whose TLS handshake is not complete carries no request. */
  async closed(): Promise<void> {
    if (this.#open === 0) return;
    this.#allClosed ??= Promise.withResolvers<void>();
    await this.#allClosed.promise;
  }

  #closed(leave: () => void): void {
    leave();
    this.#open -= 1;
    if (this.#open > 0) return;
    this.#allClosed?.resolve();
    this.#allClosed = undefined;
  }

  destroyAll(): void {
    for (const socket of this.#sockets.values()) socket.destroy();
  }
}
