import { createServer, type Server, type Socket } from 'node:net';

/** Resolves to the port. */
export async function listen(server: Server, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** A port that is closed for a while, again and again; open connections stay. */
export class FlappingListener {
  readonly #port: number;
  readonly #handle: (socket: Socket) => void;
  #server: Server | undefined;
  #reopen: NodeJS.Timeout | undefined;

  constructor(port: number, handle: (socket: Socket) => void) {
    this.#port = port;
    this.#handle = handle;
  }

  async open(): Promise<void> {
    this.#server = createServer(this.#handle);
    await listen(this.#server, this.#port);
  }

  /** Refuses new connections for so many milliseconds from now. */
  refuse(milliseconds: number): void {
    this.#server?.close();
    this.#server = undefined;
    clearTimeout(this.#reopen);
    this.#reopen = setTimeout(() => void this.open(), milliseconds);
  }

  close(): void {
    clearTimeout(this.#reopen);
    this.#server?.close();
  }
}
