import { Refusal } from '../errors.ts';

/** Counts requests in flight, rejects those above the limit, and lets a shutdown wait for the rest. */
export class Admission {
  readonly #inFlight = new Map<string, number>();
  #waiting: PromiseWithResolvers<void> | undefined;

  /**
   * @param limit how many exchanges of the environment may be under way
   * @returns what to call, once, when the exchange is over
   * @throws Refusal `overloaded`
   */
  enter(environment: string, limit: number): () => void {
    const now = this.#inFlight.get(environment) ?? 0;
    if (now >= limit) {
      throw new Refusal('overloaded', `${limit} requests to this environment are under way already.`, {
        retryAfter: 1,
      });
    }
    this.#inFlight.set(environment, now + 1);
    return () => this.#leave(environment);
  }

  /** Resolves when nothing is in flight. */
  async idle(): Promise<void> {
    while (this.#total() > 0) {
      this.#waiting ??= Promise.withResolvers<void>();
      await this.#waiting.promise;
    }
  }

  #leave(environment: string): void {
    this.#inFlight.set(environment, (this.#inFlight.get(environment) ?? 1) - 1);
    if (this.#waiting === undefined || this.#total() > 0) return;
    this.#waiting.resolve();
    this.#waiting = undefined;
  }

  #total(): number {
    return [...this.#inFlight.values()].reduce((sum, count) => sum + count, 0);
  }
}
