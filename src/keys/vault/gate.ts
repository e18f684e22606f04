import { BackOff, type BackOffPorts, type BackOffRange } from '../back-off.ts';
import { VaultError } from './problem.ts';

/** Keeps Vault from being asked again too soon after a failure, and says which failure it was. */
export class Gate {
  readonly #backOff: BackOff;
  #closedBy: VaultError | undefined;
  #successes = 0;

  constructor(ports: BackOffPorts, range: BackOffRange) {
    this.#backOff = new BackOff(ports, range);
  }

  /** @throws VaultError `backing-off` while it is closed. */
  check(): void {
    const { wait } = this.#backOff;
    if (wait === 0) return;
    throw new VaultError('backing-off', {
      retryAfter: wait / 1000,
      ...(this.#closedBy === undefined ? {} : { note: `last: ${this.#closedBy.message}` }),
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
  close(error: VaultError, spent = 0): void {
    this.#closedBy = error;
    this.#backOff.failed(error.retryAfter, spent);
  }

  /** Keeps others out for so many milliseconds, while one goes first. */
  hold(milliseconds: number): void {
    this.#backOff.hold(milliseconds);
  }

  open(): void {
    this.#successes += 1;
    this.#backOff.succeeded();
  }
}
