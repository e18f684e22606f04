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
    const release = take(this.#callers, name, limit);
    if (release !== undefined) return release;
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
    const release = take(this.#environments, name, limit);
    if (release !== undefined) return release;
    const detail = `The limit of ${limit} concurrent requests to this environment is reached.`;
    throw new ProxyError('overloaded', detail, { retryAfter: 1 });
  }

  /** Requests to the environment in flight. */
  inFlight(environment: string): number {
    return this.#environments.get(environment) ?? 0;
  }
}

/** @returns releases the slot; `undefined` if none is free */
function take(slots: Map<string, number>, name: string, limit: number): (() => void) | undefined {
  const inUse = slots.get(name) ?? 0;
  if (inUse >= limit) return undefined;
  slots.set(name, inUse + 1);
  return () => void slots.set(name, (slots.get(name) ?? 1) - 1);
}
