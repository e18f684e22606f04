import { setTimer } from '../../util/timer.ts';
import { isUnavailable } from './errors.ts';

/** Milliseconds after which a read without an answer is sent once more, on another connection. */
const patience = 1000;

/** Sends one copy, until the signal ends it; a further one on a connection of its own. */
type Send<T> = (copy: { readonly signal: AbortSignal; readonly freshSocket: boolean }) => Promise<T>;

type Resend = (isProbe: boolean) => Promise<void>;

/**
 * Keeps reads from waiting on connections on which nothing comes any more, as after a node of Vault hung or was
 * cut off. A read that is unanswered for a second is sent again, but all reads together send at most one such
 * copy per second; when one of them is answered, Vault is back, and the other reads that wait are sent
 * again too. The first answer counts; without one a read fails when its first copy does.
 */
export class Resender {
  readonly #waiting = new Set<Resend>();
  #resting = false;

  async send<T>(send: Send<T>): Promise<T> {
    const over = new AbortController();
    const { signal } = over;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const sendAgain = async (isProbe: boolean): Promise<void> => {
      try {
        resolve(await send({ signal, freshSocket: true }));
      } catch (error) {
        // Whether Vault is away, the first copy says at its deadline.
        if (isUnavailable(error)) return;
        reject(error);
      }
      this.#waiting.delete(sendAgain);
      if (isProbe) for (const other of this.#waiting) void other(false);
    };
    this.#waiting.add(sendAgain);
    const cancel = this.#probeEach(sendAgain);
    send({ signal, freshSocket: false }).then(resolve, reject);
    try {
      return await promise;
    } finally {
      cancel();
      this.#waiting.delete(sendAgain);
      over.abort();
    }
  }

  /** Sends again after each second in which no other read did. */
  #probeEach(sendAgain: Resend): () => void {
    const probe = (): void => {
      cancel = setTimer(probe, patience);
      if (this.#resting) return;
      this.#resting = true;
      setTimer(() => {
        this.#resting = false;
      }, patience - 1);
      void sendAgain(true);
    };
    let cancel = setTimer(probe, patience);
    return () => cancel();
  }
}
