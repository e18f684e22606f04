/**
 * Bounds the bytes of forms and responses in memory, so that the process stays within its memory limit.
 *
 * A holder, which is a caller, may hold as much as it leaves free. So one alone gets half of the budget, two get a
 * third each, and whatever the others do, the next caller finds some.
 */
export class MemoryBudget {
  /** Bytes. May be lowered; what is already reserved stays reserved until it is released. */
  limit: number;
  #reserved = 0;
  readonly #held = new Map<string, number>();

  /** @param limit bytes */
  constructor(limit: number) {
    this.limit = limit;
  }

  reservation(holder: string): MemoryReservation {
    return new MemoryReservation((bytes) => this.#change(holder, bytes));
  }

  #change(holder: string, bytes: number): boolean {
    const held = (this.#held.get(holder) ?? 0) + bytes;
    const reserved = this.#reserved + bytes;
    // A release always succeeds, even while more than a lowered limit is reserved.
    if (bytes > 0 && held > this.limit - reserved) return false;
    this.#held.set(holder, held);
    this.#reserved = reserved;
    return true;
  }
}

/** For commands, which send one request at a time. */
export function unlimitedMemory(): MemoryReservation {
  return new MemoryBudget(Number.POSITIVE_INFINITY).reservation('');
}

/** The bytes of one request, from the first byte of its form until its response is written. */
export class MemoryReservation {
  readonly #change: (bytes: number) => boolean;
  #reserved = 0;

  /** @param change reserves bytes of the budget, or releases them if negative; `false` if not enough are left */
  constructor(change: (bytes: number) => boolean) {
    this.#change = change;
  }

  /** @returns `false` if the budget has not enough bytes left for this holder; nothing is reserved then */
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
