import { ProxyError } from '../errors.ts';

/** Counts requests in flight by environment, and rejects those above the limit. */
export class ConcurrencyLimiter {
  readonly #inFlight = new Map<string, number>();

  /**
   * @param limit maximum number of concurrent requests to the environment
   * @returns releases the slot; to be called once
   * @throws ProxyError `overloaded`
   */
  acquire(environment: string, limit: number): () => void {
    const inFlight = this.#inFlight.get(environment) ?? 0;
    if (inFlight >= limit) {
      const detail = `The limit of ${limit} concurrent requests to this environment is reached.`;
      throw new ProxyError('overloaded', detail, { retryAfter: 1 });
    }
    this.#inFlight.set(environment, inFlight + 1);
    return () => this.#release(environment);
  }

  #release(environment: string): void {
    this.#inFlight.set(environment, (this.#inFlight.get(environment) ?? 1) - 1);
  }
}
