/**
 * The nonces seen within the timestamp window. RFC 5849 section 3.3 lets a server forget a nonce once its
 * timestamp is refused anyway; how the gateway does it is not shown (interface section 5.4).
 */
export class NonceMemory {
  readonly #expiries = new Map<string, number>();
  readonly #capacity: number;

  /** Beyond `capacity` the oldest are forgotten: memory stays bounded, and those could be replayed. */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /**
   * Remembers the nonce; `false` if it was seen before. Times in seconds.
   *
   * @param expiry when a request with this nonce is refused for its timestamp.
   */
  remember(consumerKey: string, nonce: string, expiry: number, now: number): boolean {
    this.#forget(now);
    const entry = JSON.stringify([consumerKey, nonce]);
    if (this.#expiries.has(entry)) return false;
    this.#expiries.set(entry, expiry);
    return true;
  }

  get size(): number {
    return this.#expiries.size;
  }

  /** From the oldest on: those past their window, and as many more as the capacity asks for. */
  #forget(now: number): void {
    for (const [entry, expiry] of this.#expiries) {
      if (expiry >= now && this.#expiries.size < this.#capacity) return;
      this.#expiries.delete(entry);
    }
  }
}
