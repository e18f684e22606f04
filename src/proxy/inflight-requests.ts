import { setImmediate as nextTurn } from 'node:timers/promises';
import { ProxyError } from '../errors.ts';
import { SlotList } from '../util/slot-list.ts';

/** A client's request, from its head to its log line. */
export interface InflightRequest {
  /** Rejects with a ProxyError when the process has to end before the request has. */
  readonly aborted: Promise<never>;
  /** Called once, after the log line. */
  readonly end: () => void;
}

/** One attempt at the gateway. */
export interface AbortableUpstreamRequest {
  /** Settles when the attempt has ended. */
  readonly response: Promise<unknown>;
  abort(): void;
}

/** Every request that is being handled and every upstream request, so that a process that has to end knows them all. */
export class InflightRequests {
  readonly #aborts = new SlotList<() => void>();
  readonly #upstream = new SlotList<AbortableUpstreamRequest>();
  #count = 0;
  #upstreamAborted = false;
  #aborted = false;
  #idle: PromiseWithResolvers<void> | undefined;

  begin(): InflightRequest {
    const { promise, reject } = Promise.withResolvers<never>();
    const abort = (): void => reject(shuttingDown());
    const remove = this.#aborts.add(abort);
    this.#count += 1;
    if (this.#aborted) abort();
    return {
      aborted: promise,
      end: () => {
        remove();
        this.#count -= 1;
        if (this.#count > 0) return;
        this.#idle?.resolve();
        this.#idle = undefined;
      },
    };
  }

  /** @throws ProxyError `shutting-down` once requests have been aborted */
  assertAccepting(): void {
    if (this.#upstreamAborted) throw shuttingDown();
  }

  trackUpstream(request: AbortableUpstreamRequest): void {
    const remove = this.#upstream.add(request);
    request.response.then(remove, remove);
  }

  /** Ends every request, now and to come: first those at the gateway, so that each ends with its own outcome. */
  async abortAll(): Promise<void> {
    this.#upstreamAborted = true;
    for (const request of this.#upstream.values()) request.abort();
    await nextTurn();
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
