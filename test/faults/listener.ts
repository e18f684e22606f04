import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import { type Listening, listen } from '../support/listening.ts';

/** A port that is closed for a while, again and again; open connections stay. */
export class FlappingListener {
  readonly #port: number;
  readonly #handle: (socket: Socket) => void;
  readonly #tls: TlsOptions | undefined;
  readonly #opened: Listening[] = [];
  #server: Server | undefined;
  #reopen: NodeJS.Timeout | undefined;

  constructor(port: number, handle: (socket: Socket) => void, tls?: TlsOptions) {
    this.#port = port;
    this.#handle = handle;
    this.#tls = tls;
  }

  async open(): Promise<void> {
    const handle = (socket: Socket): void => this.#handle(socket.on('error', () => {}));
    this.#server = this.#tls === undefined ? createServer(handle) : createTlsServer(this.#tls, handle);
    this.#server.on('tlsClientError', () => {});
    this.#opened.push(await listen(this.#server, this.#port));
  }

  /** Refuses new connections for the given number of milliseconds from now. */
  refuse(milliseconds: number): void {
    this.#server?.close();
    this.#server = undefined;
    clearTimeout(this.#reopen);
    this.#reopen = setTimeout(() => void this.open(), milliseconds);
  }

  async close(): Promise<void> {
    clearTimeout(this.#reopen);
    await Promise.all(this.#opened.map((opened) => opened.close()));
  }
}
