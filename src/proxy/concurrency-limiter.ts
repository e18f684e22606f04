import { ProxyError } from '../errors.ts';

/** Counts requests in flight by environment and by caller, and rejects those above a limit. */
export class ConcurrencyLimiter {
  readonly #environments = new Map<string, number>();
  readonly #callers = new Map<string, number>();

  /**
   * @param limits maximum number of concurrent requests to the environment, and of the caller
   * @returns releases the slots; to be called once
   * @throws ProxyError `overloaded`; `caller-limit`
   */
  acquire(
    { environment, caller }: { environment: string; caller: string },
    limits: { environment: number; caller: number },
  ): () => void {
    const ofEnvironment = this.#environments.get(environment) ?? 0;
    const ofCaller = this.#callers.get(caller) ?? 0;
    // First: a caller above its own limit has to change something, whatever the others do.
    if (ofCaller >= limits.caller) {
      const detail = `The limit of ${limits.caller} concurrent requests of this caller is reached. Retry later.`;
      throw new ProxyError('caller-limit', detail, { retryAfter: 1 });
    }
    if (ofEnvironment >= limits.environment) {
      const detail = `The limit of ${limits.environment} concurrent requests to this environment is reached.`;
      throw new ProxyError('overloaded', detail, { retryAfter: 1 });
    }
    this.#environments.set(environment, ofEnvironment + 1);
    this.#callers.set(caller, ofCaller + 1);
    return () => {
      release(this.#environments, environment);
      release(this.#callers, caller);
    };
  }

  /** Requests to the environment in flight. */
  inFlight(environment: string): number {
    return this.#environments.get(environment) ?? 0;
  }
}

function release(inFlight: Map<string, number>, name: string): void {
  inFlight.set(name, (inFlight.get(name) ?? 1) - 1);
}
