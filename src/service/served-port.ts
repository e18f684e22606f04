import { Port } from '../net/port.ts';
import type { Listener, ListenerLimits } from '../proxy/inbound/listener.ts';
import type { ListenerTls } from '../proxy/inbound/listener-tls.ts';

/** What a configuration says about a port. */
export interface PortSettings {
  readonly host: string;
  readonly port: number;
  readonly maxConnections: number;
  readonly limits: ListenerLimits;
  readonly tls: ListenerTls | undefined;
}

interface PortOptions {
  readonly createListener: (limits: ListenerLimits, tls: ListenerTls | undefined) => Listener;
  /** Called for each connection beyond `maxConnections`, which is closed. */
  readonly dropped: (port: Port) => void;
}

interface Opened extends Pick<PortSettings, 'host' | 'port'> {
  readonly listening: Port;
  readonly url: string;
}

interface Served {
  readonly opened: Opened;
  readonly listener: Listener;
}

/**
 * A port of the process, and what serves its connections. Limits and certificates change while connections are open; with
 * another address, or when TLS is switched on or off, those from before end, each after the response to its current request.
 */
export class ServedPort {
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
    const { opened, listener } = this.#current ?? notInUse();
    return listener.hasTls ? opened.url.replace('http:', 'https:') : opened.url;
  }

  /** Listens at this address, beside the one in use if that is another. @throws Error of `listen`, such as `EADDRINUSE` */
  async open({ host, port }: Pick<PortSettings, 'host' | 'port'>): Promise<void> {
    const inUse = this.#current?.opened;
    this.#opened = inUse;
    if (inUse?.host === host && inUse.port === port) return;
    const listening: Port = new Port(() => this.#options.dropped(listening));
    const url = await listening.listen({ host, port });
    this.#opened = { host, port, listening, url };
  }

  /** Undoes {@link open}. */
  cancel(): void {
    if (this.#opened !== this.#current?.opened) this.#opened?.listening.close();
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
    opened.listening.maxConnections = maxConnections;
    if (before?.opened === opened && before.listener.useTls(tls)) {
      before.listener.limits = limits;
      return;
    }
    const listener = this.#options.createListener(limits, tls);
    if (this.#isDraining) listener.connections.drain();
    listener.serve(opened.listening);
    this.#current = { opened, listener };
    this.#served.add(this.#current);
    if (before !== undefined) void this.#retire(before, opened);
  }

  /** Each connection ends with its next response. */
  drain(): void {
    this.#isDraining = true;
    for (const { listener } of this.#served) listener.connections.drain();
  }

  stopListening(): void {
    for (const { opened } of this.#served) opened.listening.close();
  }

  /** Closes idle connections now, and the others after the response to their current request. */
  close(): void {
    for (const { listener } of this.#served) listener.retire();
  }

  /** Resolves when no connection is open. */
  async closed(): Promise<void> {
    await Promise.all(Array.from(this.#served, ({ listener }) => listener.connections.closed()));
  }

  /** Ends the port and all its connections, also during a response. */
  end(): void {
    this.stopListening();
    for (const { opened, listener } of this.#served) {
      opened.listening.destroyAll();
      listener.close();
    }
  }

  async #retire(before: Served, now: Opened): Promise<void> {
    const { opened, listener } = before;
    if (opened !== now) opened.listening.close();
    listener.retire();
    await listener.connections.closed();
    listener.close();
    this.#served.delete(before);
  }
}

function notInUse(): never {
  throw new TypeError('the port is not open');
}
