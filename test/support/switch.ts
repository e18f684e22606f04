import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { z } from 'zod';

const addressShape = z.object({ port: z.number() });

/** A TCP proxy whose target can be changed. */
export class Switch {
  readonly #server = createServer((client) => this.#join(client));
  readonly #sockets = new Set<Socket>();
  #port = 0;
  target = 0;

  /** Never changes once it listens. */
  get port(): number {
    return this.#port;
  }

  async listen(): Promise<void> {
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = addressShape.parse(this.#server.address()).port;
  }

  /** Ends all connections. */
  drop(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.drop();
    await closed;
  }

  #join(client: Socket): void {
    const upstream = connect(this.target, '127.0.0.1');
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {
        // 'close' follows and closes the other socket.
      });
      socket.once('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  }
}
