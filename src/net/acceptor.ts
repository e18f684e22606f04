import type { Server as HttpServer } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { SlotList } from '../util/slot-list.ts';
import { type Address, listen } from './http.ts';

/**
 * Accepts the connections of an address, as many as allowed, and passes each of them to the HTTP or HTTPS server that is
 * current by then; that server does not listen itself.
 */
export class Acceptor {
  readonly #listening = createServer({ noDelay: true });
  /** All open ones, also those in a TLS handshake and after CONNECT, which no HTTP server knows. */
  readonly #sockets = new SlotList<Socket>();
  #current: HttpServer | undefined;

  /** @param dropped called for each connection beyond `maxConnections`, which is closed */
  constructor(dropped: () => void) {
    this.#listening.on('drop', dropped).on('connection', (socket) => {
      // Without a listener, a reset during a TLS handshake or after CONNECT would end the process.
      socket.on('error', () => {}).once('close', this.#sockets.add(socket));
      if (this.#current === undefined) socket.destroy();
      else this.#current.emit('connection', socket);
    });
  }

  /** At most so many are open. Each connection uses a file descriptor. Without a free one, no key file can be read and no gateway reached. */
  set maxConnections(limit: number) {
    this.#listening.maxConnections = limit;
  }

  /** Passes new connections to this server; those that are open stay where they are. */
  use(server: HttpServer): void {
    this.#current = server;
    // A server of Node that hears this begins to end connections whose heads and requests take longer than its limits.
    server.emit('listening');
  }

  /** @returns the `http:` URL with the actual port. @throws Error of `listen`, such as `EADDRINUSE` */
  listen(address: Address): Promise<string> {
    return listen(this.#listening, address);
  }

  /** Accepts no more connections; those that are open go on. */
  stopListening(): void {
    this.#listening.close();
  }

  /** Ends every open connection, also during a response. */
  destroyAll(): void {
    for (const socket of this.#sockets.values()) socket.destroy();
  }
}
