/** Bounds the bytes of requests and responses in memory, so that the process stays within its memory limit. */
export class MemoryBudget {
  /** Bytes. May be lowered; what is already reserved stays reserved until it is released. */
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
    // A release always succeeds, even while more than a lowered limit is reserved.
    if (bytes > 0 && bytes > this.limit - this.#reserved) return false;
    this.#reserved += bytes;
    return true;
  }
}

/** For commands, which send one request at a time. */
export function unlimitedMemory(): MemoryBudget {
  return new MemoryBudget(Number.POSITIVE_INFINITY);
}

/** The bytes of one request, from its first byte until its response is written. */
export class MemoryReservation {
  readonly #change: (bytes: number) => boolean;
  #reserved = 0;

  /** @param change reserves bytes of the budget, or releases them if negative; `false` if not enough are left */
  constructor(change: (bytes: number) => boolean) {
    this.#change = change;
  }

  /** @returns `false` if the budget has not enough bytes left; nothing is reserved then */
  reserve(bytes: number): boolean {
    if (!this.#change(bytes)) return false;
    this.#reserved += bytes;
    return true;
  }

  release(): void {
    this.#change(-this.#reserved);
    this.#reserved = 0;
  }
}
