import { type BackoffOptions, type BackoffRange, ExponentialBackoff } from '../../util/backoff.ts';
import { VaultError } from './errors.ts';

/** Keeps Vault from being asked again too soon after a failure, and says which failure it was. */
export class CircuitBreaker {
  readonly #backOff: ExponentialBackoff;
  #trippedBy: VaultError | undefined;
  #successes = 0;

  constructor(ports: BackoffOptions, range: BackoffRange) {
    this.#backOff = new ExponentialBackoff(ports, range);
  }

  /** @throws VaultError `backing-off` while it is closed. */
  assertClosed(): void {
    const { remaining: wait } = this.#backOff;
    if (wait === 0) return;
    throw new VaultError('backing-off', {
      retryAfter: wait / 1000,
      ...(this.#trippedBy === undefined ? {} : { note: `last: ${this.#trippedBy.message}` }),
    });
  }

  /** Failures since the last success. */
  get failures(): number {
    return this.#backOff.failures;
  }

  get successes(): number {
    return this.#successes;
  }

  /**
   * Closes it after a failure, for longer each time; for at least the error's `retryAfter`.
   *
   * @param spent milliseconds that it took to fail, in which nothing else was asked
   */
  trip(error: VaultError, spent = 0): void {
    this.#trippedBy = error;
    this.#backOff.recordFailure(error.retryAfter, spent);
  }

  /** Keeps others out for so many milliseconds, while one goes first. */
  holdFor(milliseconds: number): void {
    this.#backOff.holdFor(milliseconds);
  }

  reset(): void {
    this.#successes += 1;
    this.#backOff.reset();
  }
}
