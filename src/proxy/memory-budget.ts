/** Bounds how many bytes of requests and responses the process holds at once, so that it stays within its limit. */
export class MemoryBudget {
  /** Bytes. May change; what is reserved above a smaller limit stays until it is released. */
  limit: number;
  #reserved = 0;

  /** @param limit bytes */
  constructor(limit: number) {
    this.limit = limit;
  }

  reservation(): MemoryReservation {
    return new MemoryReservation((bytes) => this.#change(bytes));
  }

  #change(bytes: number): boolean {
    // A release always succeeds, also while more is reserved than a lowered limit allows.
    if (bytes > 0 && bytes > this.limit - this.#reserved) return false;
    this.#reserved += bytes;
    return true;
  }
}

/** For commands that send one request after the other. */
export function unlimitedMemory(): MemoryBudget {
  return new MemoryBudget(Number.POSITIVE_INFINITY);
}

/** What one request holds, from its first byte until its response has been written. */
export class MemoryReservation {
  readonly #change: (bytes: number) => boolean;
  #held = 0;

  /** @param change takes bytes from the budget, or gives them back; `false` where there are not so many */
  constructor(change: (bytes: number) => boolean) {
    this.#change = change;
  }

  /** @returns `false` where the budget has not so many bytes left; then none were reserved */
  reserve(bytes: number): boolean {
    if (!this.#change(bytes)) return false;
    this.#held += bytes;
    return true;
  }

  release(): void {
    this.#change(-this.#held);
    this.#held = 0;
  }
}
