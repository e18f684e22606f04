import { createServer, type Socket } from 'node:net';
import { type Address, listen } from '../net/http.ts';
import type { InboundServer, ServerLimits } from '../proxy/inbound/server.ts';
import type { ServerTls } from '../proxy/inbound/server-tls.ts';
import { SlotList } from '../util/slot-list.ts';

/** What a configuration says about a port, except its address. */
export interface PortSettings {
  /** Each uses a file descriptor. Without a free one, no key file can be read and no gateway reached. */
  readonly maxConnections: number;
  readonly limits: ServerLimits;
  readonly tls: ServerTls | undefined;
}

interface PortOptions {
  readonly createServer: (limits: ServerLimits, tls: ServerTls | undefined) => InboundServer;
  /** Called for each connection beyond `maxConnections`, which is closed. */
  readonly dropped: (port: Port) => void;
}

/**
 * Accepts the connections of an address, and passes each of them to the server that is current by then. Limits and
 * certificates change while connections are open; when TLS is switched on or off, or clients are verified in another
 * way, those from before end, each after the response to its current request.
 */
export class Port {
  readonly #listening = createServer({ noDelay: true });
  /** All open ones, also those in a TLS handshake and after CONNECT, which no HTTP server knows. */
  readonly #sockets = new SlotList<Socket>();
  readonly #createServer: PortOptions['createServer'];
  /** The current one last, before it those whose connections are ending. */
  readonly #servers = new Set<InboundServer>();
  #current: InboundServer | undefined;
  #url = '';
  #isDraining = false;

  constructor(options: PortOptions) {
    this.#createServer = options.createServer;
    this.#listening
      .on('drop', () => options.dropped(this))
      .on('connection', (socket) => {
        // Without a listener, a reset during a TLS handshake or after CONNECT would end the process.
        socket.on('error', () => {}).once('close', this.#sockets.add(socket));
        this.#current?.accept(socket);
      });
  }

  get url(): string {
    return this.#current?.hasTls === true ? this.#url.replace('http:', 'https:') : this.#url;
  }

  /** To be called when {@link use} has said what serves its connections. @throws Error of `listen`, such as `EADDRINUSE` */
  async listen(address: Address): Promise<void> {
    this.#url = await listen(this.#listening, address);
  }

  /** Serves connections in this way from now on. */
  use({ limits, tls, maxConnections }: PortSettings): void {
    this.#listening.maxConnections = maxConnections;
    const before = this.#current;
    if (before?.useTls(tls)) {
      before.limits = limits;
      return;
    }
    const server = this.#createServer(limits, tls);
    if (this.#isDraining) server.connections.drain();
    this.#current = server;
    this.#servers.add(server);
    if (before !== undefined) void this.#retire(before);
  }

  /** Each connection ends with its next response. */
  drain(): void {
    this.#isDraining = true;
    for (const { connections } of this.#servers) connections.drain();
  }

  /** Accepts no more connections; those that are open go on. */
  stopListening(): void {
    this.#listening.close();
  }

  /** Closes idle connections now, and the others after the response to their current request. */
  endWhenIdle(): void {
    for (const { connections } of this.#servers) connections.endWhenIdle();
  }

  /** Resolves when no connection is open. */
  async allEnded(): Promise<void> {
    await Promise.all(Array.from(this.#servers, ({ connections }) => connections.allEnded()));
  }

  /** Ends every open connection, also during a response. */
  endAll(): void {
    for (const socket of this.#sockets.values()) socket.destroy();
  }

  /** Ends the port and all its connections, also during a response. */
  destroyAll(): void {
    this.stopListening();
    this.endAll();
    for (const server of this.#servers) server.stopTimers();
  }

  async #retire(server: InboundServer): Promise<void> {
    server.connections.endWhenIdle();
    await server.connections.allEnded();
    server.stopTimers();
    this.#servers.delete(server);
  }
}
