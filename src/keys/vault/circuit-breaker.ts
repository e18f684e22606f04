import { Backoff, type BackoffOptions, type BackoffRange } from '../../util/backoff.ts';
import { isUnavailable, VaultError } from './errors.ts';

/**
 * Blocks requests for a while after Vault was unavailable: they fail at once with `backing-off`. Then one request
 * passes as a probe, and the others still fail until it has ended.
 */
export class CircuitBreaker {
  readonly #monotonic: () => number;
  readonly #backoff: Backoff;
  #probing = false;
  #respondedAt = Number.NEGATIVE_INFINITY;
  #trippedBy: VaultError | undefined;

  constructor({ monotonic, random }: BackoffOptions, range: BackoffRange) {
    this.#monotonic = monotonic;
    this.#backoff = new Backoff(range, random);
  }

  /** @throws VaultError `backing-off`, whose message names the failure; and what the request throws */
  async run<T>(request: () => Promise<T>): Promise<T> {
    const isProbe = this.#backoff.failures() > 0;
    if (this.#probing) throw backingOff(1000, this.#trippedBy);
    assertDue(this.#backoff, this.#monotonic(), this.#trippedBy);
    this.#probing = isProbe;
    const beganAt = this.#monotonic();
    try {
      const response = await request();
      this.close();
      return response;
    } catch (error) {
      if (!isUnavailable(error)) {
        this.close();
        // A request that hung does not count if Vault has responded since. The time that it hung is part of the wait.
      } else if (beganAt >= this.#respondedAt) {
        this.#trippedBy = error;
        this.#backoff.recordFailure(this.#monotonic(), { beganAt, atLeast: error.retryAfter });
      }
      throw error;
    } finally {
      if (isProbe) this.#probing = false;
    }
  }

  /** Vault has responded, or what it failed for was replaced. */
  close(): void {
    this.#respondedAt = this.#monotonic();
    this.#backoff.reset();
  }
}

/**
 * @param key of the back-off
 * @throws VaultError `backing-off` while the next attempt is not due
 */
export function assertDue(backoff: Backoff, now: number, last: VaultError | undefined, key?: string): void {
  if (!backoff.isDue(now, key)) throw backingOff(backoff.remaining(now, key), last);
}

function backingOff(milliseconds: number, last: VaultError | undefined): VaultError {
  const note = last && `last: ${last.message}`;
  return new VaultError('backing-off', { retryAfter: milliseconds / 1000, cause: last, note });
}
