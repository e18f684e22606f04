import { Acceptor } from '../net/acceptor.ts';
import type { InboundServer, ServerLimits } from '../proxy/inbound/server.ts';
import type { ServerTls } from '../proxy/inbound/server-tls.ts';

/** What a configuration says about a port. */
export interface PortSettings {
  readonly host: string;
  readonly port: number;
  readonly maxConnections: number;
  readonly limits: ServerLimits;
  readonly tls: ServerTls | undefined;
}

interface PortOptions {
  readonly createServer: (limits: ServerLimits, tls: ServerTls | undefined) => InboundServer;
  /** Called for each connection beyond `maxConnections`, which is closed. */
  readonly dropped: (acceptor: Acceptor) => void;
}

interface Opened extends Pick<PortSettings, 'host' | 'port'> {
  readonly acceptor: Acceptor;
  readonly url: string;
}

interface Served {
  readonly opened: Opened;
  readonly server: InboundServer;
}

/**
 * A port of the process, and what serves its connections. Limits and certificates change while connections are open; with
 * another address, or when TLS is switched on or off, those from before end, each after the response to its current request.
 */
export class Port {
  readonly #options: PortOptions;
  /** The current one last, before it those whose connections are ending. */
  readonly #served = new Set<Served>();
  #current: Served | undefined;
  #opened: Opened | undefined;
  #isDraining = false;

  constructor(options: PortOptions) {
    this.#options = options;
  }

  get url(): string {
    const { opened, server } = this.#current ?? notInUse();
    return server.hasTls ? opened.url.replace('http:', 'https:') : opened.url;
  }

  /** Listens at this address, beside the one in use if that is another. @throws Error of `listen`, such as `EADDRINUSE` */
  async open({ host, port }: Pick<PortSettings, 'host' | 'port'>): Promise<void> {
    const inUse = this.#current?.opened;
    this.#opened = inUse;
    if (inUse?.host === host && inUse.port === port) return;
    const acceptor: Acceptor = new Acceptor(() => this.#options.dropped(acceptor));
    const url = await acceptor.listen({ host, port });
    this.#opened = { host, port, acceptor, url };
  }

  /** Undoes {@link open}. */
  cancel(): void {
    if (this.#opened !== this.#current?.opened) this.#opened?.acceptor.stopListening();
    this.#opened = this.#current?.opened;
  }

  /**
   * Serves connections in this way from now on.
   *
   * @param isOpened at the address that was opened last, else at the one in use
   */
  use({ limits, tls, maxConnections }: Omit<PortSettings, 'host' | 'port'>, isOpened: boolean): void {
    const before = this.#current;
    const opened = (isOpened ? this.#opened : before?.opened) ?? notInUse();
    opened.acceptor.maxConnections = maxConnections;
    if (before?.opened === opened && before.server.useTls(tls)) {
      before.server.limits = limits;
      return;
    }
    const server = this.#options.createServer(limits, tls);
    if (this.#isDraining) server.connections.drain();
    server.serve(opened.acceptor);
    this.#current = { opened, server };
    this.#served.add(this.#current);
    if (before !== undefined) void this.#retire(before, opened);
  }

  /** Each connection ends with its next response. */
  drain(): void {
    this.#isDraining = true;
    for (const { server } of this.#served) server.connections.drain();
  }

  stopListening(): void {
    for (const { opened } of this.#served) opened.acceptor.stopListening();
  }

  /** Closes idle connections now, and the others after the response to their current request. */
  endWhenIdle(): void {
    for (const { server } of this.#served) server.connections.endWhenIdle();
  }

  /** Resolves when no connection is open. */
  async allEnded(): Promise<void> {
    await Promise.all(Array.from(this.#served, ({ server }) => server.connections.allEnded()));
  }

  /** Ends the port and all its connections, also during a response. */
  destroyAll(): void {
    this.stopListening();
    for (const { opened, server } of this.#served) {
      opened.acceptor.destroyAll();
      server.stopTimers();
    }
  }

  async #retire(before: Served, now: Opened): Promise<void> {
    const { opened, server } = before;
    if (opened !== now) opened.acceptor.stopListening();
    server.connections.endWhenIdle();
    await server.connections.allEnded();
    server.stopTimers();
    this.#served.delete(before);
  }
}

function notInUse(): never {
  throw new TypeError('the port is not open');
}
