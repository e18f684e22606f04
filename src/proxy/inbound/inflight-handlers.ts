import { ProxyError } from '../../errors.ts';
import { SlotList } from '../../util/slot-list.ts';

/** One request between its head and its log line. */
export interface InFlightRequest {
  /** Rejects with a Refusal when the process has to end before the request has. */
  readonly aborted: Promise<never>;
  /** Called once, after the log line. */
  readonly leave: () => void;
}

/** Every request that is handled, whatever it waits for. */
export class InFlight {
  readonly #aborts = new SlotList<() => void>();
  #count = 0;
  #aborted = false;
  #idle: PromiseWithResolvers<void> | undefined;

  enter(): InFlightRequest {
    const { promise, reject } = Promise.withResolvers<never>();
    const abort = (): void => reject(shuttingDown());
    const leave = this.#aborts.add(abort);
    this.#count += 1;
    if (this.#aborted) abort();
    return {
      aborted: promise,
      leave: () => {
        leave();
        this.#count -= 1;
        if (this.#count > 0) return;
        this.#idle?.resolve();
        this.#idle = undefined;
      },
    };
  }

  /** Ends each request, now and to come. */
  abort(): void {
    this.#aborted = true;
    for (const abort of this.#aborts.values()) abort();
  }

  /** Resolves when no request is in flight. */
  async idle(): Promise<void> {
    if (this.#count === 0) return;
    this.#idle ??= Promise.withResolvers<void>();
    await this.#idle.promise;
  }
}

function shuttingDown(): ProxyError {
  const detail = 'This instance is shutting down. Nothing was sent. Send the request again.';
  return new ProxyError('shutting-down', detail, { retryAfter: 1 });
}
