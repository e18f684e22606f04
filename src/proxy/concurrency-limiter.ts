import { ProxyError } from '../errors.ts';

/** Counts requests by caller and by environment, and rejects those above a limit. */
export class ConcurrencyLimiter {
  readonly #callers = new Map<string, number>();
  readonly #environments = new Map<string, number>();

  /**
   * A slot of the caller: from before its form is read, since a slow form uses memory, too.
   *
   * @returns releases the slot; to be called once
   * @throws ProxyError `caller-limit`
   */
  acquireForCaller(name: string, limit = Number.POSITIVE_INFINITY): () => void {
    if (inUse(this.#callers, name) < limit) return take(this.#callers, name);
    const detail = `The limit of ${limit} concurrent requests of this caller is reached. Retry later.`;
    throw new ProxyError('caller-limit', detail, { retryAfter: 1 });
  }

  /**
   * A slot of the environment: only for a request that is about to be sent.
   *
   * @returns releases the slot; to be called once
   * @throws ProxyError `overloaded`
   */
  acquireForEnvironment(name: string, limit: number): () => void {
    if (this.inFlight(name) < limit) return take(this.#environments, name);
    const detail = `The limit of ${limit} concurrent requests to this environment is reached.`;
    throw new ProxyError('overloaded', detail, { retryAfter: 1 });
  }

  /** Requests to the environment in flight. */
  inFlight(environment: string): number {
    return inUse(this.#environments, environment);
  }
}

function inUse(slots: Map<string, number>, name: string): number {
  return slots.get(name) ?? 0;
}

function take(slots: Map<string, number>, name: string): () => void {
  slots.set(name, inUse(slots, name) + 1);
  return () => void slots.set(name, inUse(slots, name) - 1);
}
