import { Refusal } from '../errors.ts';
import type { Exchange } from '../exchange.ts';
import { Roster } from './roster.ts';

/** One request between its head and its log line. */
export interface InFlightRequest {
  /** Rejects with a Refusal when the process has to end before the request has. */
  readonly aborted: Promise<never>;
  /** Called once, after the log line. */
  readonly leave: () => void;
}

interface Entry {
  readonly exchange: Exchange;
  readonly abort: (refusal: Refusal) => void;
}

/** Every request that is handled, whatever it waits for. */
export class InFlight {
  readonly #entries = new Roster<Entry>();
  #count = 0;
  #aborted = false;
  #idle: PromiseWithResolvers<void> | undefined;

  enter(exchange: Exchange): InFlightRequest {
    const { promise, reject } = Promise.withResolvers<never>();
    const entry: Entry = { exchange, abort: reject };
    const leave = this.#entries.enter(entry);
    this.#count += 1;
    if (this.#aborted) abort(entry);
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

  /** Ends each request, now and to come, with its true outcome. */
  abort(): void {
    this.#aborted = true;
    for (const entry of this.#entries.present()) abort(entry);
  }

  /** Resolves when no request is in flight. */
  async idle(): Promise<void> {
    if (this.#count === 0) return;
    this.#idle ??= Promise.withResolvers<void>();
    await this.#idle.promise;
  }
}

function abort({ exchange, abort: reject }: Entry): void {
  reject(exchange.written ? outcomeUnknown() : notSent());
}

function notSent(): Refusal {
  return new Refusal(
    'shutting-down',
    'This instance is shutting down. Nothing was sent. Send the request again.',
    {
      retryAfter: 1,
    },
  );
}

function outcomeUnknown(): Refusal {
  const detail =
    'This instance stopped before the gateway responded. The request may have been processed. Query the order status by order ID; do not resubmit under a new ID.';
  return new Refusal('internal', detail, { outcome: 'unknown' });
}
