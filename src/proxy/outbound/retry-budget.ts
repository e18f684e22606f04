import type { UpstreamError } from './upstream-request.ts';

/** How many retries are left, by kind of failure. */
export class RetryBudget {
  /** No byte was sent: safe for every operation. */
  #notSent = 2;
  /** A pooled connection was closed before a response: safe for read-only operations. */
  #stalePooled: number;

  constructor(readOnly: boolean) {
    this.#stalePooled = readOnly ? 1 : 0;
  }

  /** Whether the request may be sent again after this failure, which counts. */
  allows({ written, stalePool, unreachable }: UpstreamError): boolean {
    // The egress proxy would decide the same again.
    if (unreachable === 'proxy-denied' || unreachable === 'proxy-credentials') return false;
    if (!written) {
      this.#notSent -= 1;
      return this.#notSent >= 0;
    }
    this.#stalePooled -= stalePool ? 1 : 0;
    return stalePool && this.#stalePooled >= 0;
  }
}
