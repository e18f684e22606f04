import type { Socket } from 'node:net';

/**
 * A head of which the beginning was parsed behind a pending response, until Node's time for it was over. Its rest may be
 * unread because of us, so it gets its time when its turn has come.
 */
export class LateHead {
  readonly #timeout: number;
  #reject: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param timeout milliseconds */
  constructor(socket: Socket, timeout: number) {
    this.#timeout = timeout;
    socket.once('close', () => this.clear());
  }

  /** @param reject called if the rest does not come in time */
  set(reject: () => void): void {
    this.#reject = reject;
  }

  /** Its turn has come, if there is one. */
  startTimer(): void {
    if (this.#reject !== undefined) this.#timer = setTimeout(this.#reject, this.#timeout);
  }

  /** It has come, or never will. */
  clear(): void {
    this.#reject = undefined;
    clearTimeout(this.#timer);
  }
}
