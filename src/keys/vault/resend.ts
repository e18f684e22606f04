import { setTimer } from '../../util/timer.ts';
import { isUnavailable } from './errors.ts';

/** Milliseconds after which a read without a response is sent again, on another connection. */
const resendAfter = 1000;

/** Sends one copy of the request, which the signal aborts. Further copies use a dedicated connection. */
type Send<T> = (copy: { readonly signal: AbortSignal; readonly freshSocket: boolean }) => Promise<T>;

type Resend = (isProbe: boolean) => Promise<void>;

/**
 * Keeps reads from waiting on dead connections, as after a Vault node hung or lost its network. A read without a
 * response is sent again after a second, but all reads together send at most one such probe per second. When a
 * probe gets a response, the other waiting reads are sent again too. The first response counts; without one a
 * read fails when its first copy does.
 */
export class Resender {
  readonly #waiting = new Set<Resend>();
  #probedRecently = false;

  async send<T>(send: Send<T>): Promise<T> {
    const over = new AbortController();
    const { signal } = over;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const sendAgain = async (isProbe: boolean): Promise<void> => {
      try {
        resolve(await send({ signal, freshSocket: true }));
      } catch (error) {
        // The first copy decides at its timeout whether Vault is unavailable.
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

  /** Sends again after each second in which no other read sent a probe. */
  #probeEach(sendAgain: Resend): () => void {
    const probe = (): void => {
      cancel = setTimer(probe, resendAfter);
      if (this.#probedRecently) return;
      this.#probedRecently = true;
      setTimer(() => {
        this.#probedRecently = false;
      }, resendAfter - 1);
      void sendAgain(true);
    };
    let cancel = setTimer(probe, resendAfter);
    return () => cancel();
  }
}
