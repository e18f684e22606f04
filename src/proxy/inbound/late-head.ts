import type { Socket } from 'node:net';

/**
 * A head whose time is over by Node's clock, which began to run when its first bytes were parsed behind a pending
 * response. Its rest may be unread because of us, so its time begins when its turn has come.
 */
export class LateHead {
  readonly #timeout: number;
  /** When the last response ended, in milliseconds of a monotonic clock. */
  #turn = Number.NEGATIVE_INFINITY;
  #reject: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param timeout milliseconds */
  constructor(socket: Socket, timeout: number) {
    this.#timeout = timeout;
    socket.once('close', () => this.clear());
  }

  /** A response is still pending before it. */
  waitForTurn(reject: () => void): void {
    this.#reject = reject;
  }

  /** It is the turn of the next head. */
  beginTurn(): void {
    this.#turn = performance.now();
    if (this.#reject !== undefined) this.rejectInTime(this.#reject);
  }

  /** Rejects it when its time is over, which may be now. */
  rejectInTime(reject: () => void): void {
    const left = this.#turn + this.#timeout - performance.now();
    if (left > 0) this.#timer = setTimeout(reject, left);
    else reject();
  }

  /** It has come, or never will. */
  clear(): void {
    this.#reject = undefined;
    clearTimeout(this.#timer);
  }
}
