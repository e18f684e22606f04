import { ProxyError } from '../errors.ts';

/** Counts requests in flight by environment, and rejects those above the limit. */
export class ConcurrencyLimiter {
  readonly #inFlight = new Map<string, number>();

  /**
   * @param limit how many exchanges of the environment may be under way
   * @returns what to call, once, when the exchange is over
   * @throws Refusal `overloaded`
   */
  acquire(environment: string, limit: number): () => void {
    const now = this.#inFlight.get(environment) ?? 0;
    if (now >= limit) {
      throw new ProxyError('overloaded', `${limit} requests to this environment are under way already.`, {
        retryAfter: 1,
      });
    }
    this.#inFlight.set(environment, now + 1);
    return () => this.#release(environment);
  }

  #release(environment: string): void {
    this.#inFlight.set(environment, (this.#inFlight.get(environment) ?? 1) - 1);
  }
}
