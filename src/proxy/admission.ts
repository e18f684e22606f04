import { Refusal } from '../errors.ts';

/** Counts what is under way, refuses more than is bearable, and lets a stopping process wait for the rest. */
export class Admission {
  readonly #inFlight = new Map<string, number>();
  #draining = false;
  #idle = Promise.withResolvers<void>();

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

  /** @throws Refusal `shutting-down` */
  checkOpen(): void {
    if (!this.#draining) return;
    throw new Refusal('shutting-down', 'This instance is stopping. Send the request to another one.', {
      retryAfter: 1,
    });
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Refuses new requests from now on; resolves when the last one under way is over. */
  async drain(): Promise<void> {
    this.#draining = true;
    if (this.#total() > 0) await this.#idle.promise;
  }

  #leave(environment: string): void {
    this.#inFlight.set(environment, (this.#inFlight.get(environment) ?? 1) - 1);
    if (this.#draining && this.#total() === 0) this.#idle.resolve();
  }

  #total(): number {
    return [...this.#inFlight.values()].reduce((sum, count) => sum + count, 0);
  }
}
