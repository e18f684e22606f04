/**
 * The nonces seen within the timestamp window. RFC 5849 section 3.3 lets a server forget a nonce once its timestamp is
 * rejected anyway; what the gateway does is not shown (docs/gateway-interface.md section 5.4).
 */
export class NonceMemory {
  readonly #expiries = new Map<string, number>();
  readonly #capacity: number;

  /** Beyond `capacity` the oldest are dropped: memory stays bounded, but those could be replayed. */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /**
   * Records the nonce; `false` if it was seen before. Times in seconds.
   *
   * @param expiry when the timestamp of this nonce is rejected
   */
  remember(consumerKey: string, nonce: string, expiry: number, now: number): boolean {
    this.#forget(now);
    const entry = JSON.stringify([consumerKey, nonce]);
    if (this.#expiries.has(entry)) return false;
    this.#expiries.set(entry, expiry);
    return true;
  }

  clear(): void {
    this.#expiries.clear();
  }

  get size(): number {
    return this.#expiries.size;
  }

  /** Drops expired nonces, oldest first, and more if the capacity is reached. */
  #forget(now: number): void {
    for (const [entry, expiry] of this.#expiries) {
      if (expiry >= now && this.#expiries.size < this.#capacity) return;
      this.#expiries.delete(entry);
    }
  }
}
