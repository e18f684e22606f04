import { type BackoffOptions, type BackoffRange, ExponentialBackoff } from '../../util/backoff.ts';
import { VaultError } from './errors.ts';

/** Blocks requests for a while after a failure. Closed: requests pass. Open: they fail at once with `backing-off`. */
export class CircuitBreaker {
  readonly #backoff: ExponentialBackoff;
  #trippedBy: VaultError | undefined;
  #successes = 0;

  constructor(options: BackoffOptions, range: BackoffRange) {
    this.#backoff = new ExponentialBackoff(options, range);
  }

  /** @throws VaultError `backing-off` while it is open; its message names the failure */
  assertClosed(): void {
    const { remaining } = this.#backoff;
    if (remaining === 0) return;
    throw new VaultError('backing-off', {
      retryAfter: remaining / 1000,
      ...(this.#trippedBy === undefined ? {} : { note: `last: ${this.#trippedBy.message}` }),
    });
  }

  /** Failures since the last success. */
  get failures(): number {
    return this.#backoff.failures;
  }

  get successes(): number {
    return this.#successes;
  }

  /**
   * Opens it after a failure, for longer each time, and at least for the error's `retryAfter`.
   *
   * @param spent milliseconds until the failure, during which no other request was sent; part of the wait
   */
  trip(error: VaultError, spent = 0): void {
    this.#trippedBy = error;
    this.#backoff.recordFailure(error.retryAfter, spent);
  }

  /** Lets one request through as a probe, and blocks others for the given number of milliseconds. */
  halfOpen(milliseconds: number): void {
    this.#backoff.holdFor(milliseconds);
  }

  reset(): void {
    this.#successes += 1;
    this.#backoff.reset();
  }
}
