import { setImmediate as nextTurn } from 'node:timers/promises';
import { ProxyError } from '../errors.ts';
import { SlotList } from '../util/slot-list.ts';

/** A client's request, from its headers to its log line. */
interface InflightRequest {
  /** Rejects with a ProxyError if the process ends before the request is finished. */
  readonly aborted: Promise<never>;
  /** To be called once, after the log line. */
  readonly end: () => void;
}

interface AbortableUpstreamRequest {
  /** Settles when there is a response, of a large one its first part, or a failure. */
  readonly response: Promise<unknown>;
  abort(): void;
}

/** All requests and upstream requests in flight, so that shutdown can wait for them or abort them. */
export class InflightRequests {
  readonly #aborts = new SlotList<() => void>();
  readonly #upstream = new SlotList<AbortableUpstreamRequest>();
  #upstreamAborted = false;
  #aborted = false;

  begin(): InflightRequest {
    const { promise, reject } = Promise.withResolvers<never>();
    const abort = (): void => reject(shuttingDown());
    const end = this.#aborts.add(abort);
    if (this.#aborted) abort();
    return { aborted: promise, end };
  }

  /** @throws ProxyError `shutting-down` after {@link abortAll} */
  assertAccepting(): void {
    if (this.#upstreamAborted) throw shuttingDown();
  }

  trackUpstream(request: AbortableUpstreamRequest): void {
    const remove = this.#upstream.add(request);
    request.response.then(remove, remove);
  }

  /** Aborts all requests, also later ones: upstream requests first, so that each request has its true outcome. */
  async abortAll(): Promise<void> {
    this.#upstreamAborted = true;
    for (const request of this.#upstream.values()) request.abort();
    await nextTurn();
    this.#aborted = true;
    for (const abort of this.#aborts.values()) abort();
  }

  get count(): number {
    return this.#aborts.values().length;
  }

  idle(): Promise<void> {
    return this.#aborts.empty();
  }
}

function shuttingDown(): ProxyError {
  const detail = 'Shutting down; nothing was sent. Send the request again.';
  return new ProxyError('shutting-down', detail, { retryAfter: 1 });
}
