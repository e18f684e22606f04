import type { Socket } from 'node:net';
import { onTimeoutUnlessClosed } from './abort-response.ts';

/** How long, and how many bytes, unwanted input is still read so that the client receives the response. */
export const linger = { milliseconds: 1_000, bytes: 1_048_576 };

/** The end of a connection with unread input: closing it at once resets it, so the client could lose the response. */
export class LingeringClose {
  readonly #socket: Socket;
  #begun = false;
  #bytes = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get begun(): boolean {
    return this.#begun;
  }

  /** Ends our side, and reads what the client still sends. */
  begin(): void {
    this.#begun = true;
    const socket = this.#socket;
    socket.end();
    socket.resume();
    // If the client has closed its side too, Node destroys the socket.
    onTimeoutUnlessClosed(socket, linger.milliseconds, () => void socket.destroy());
  }

  discard(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > linger.bytes) this.#socket.destroy();
  }
}
