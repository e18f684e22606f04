import type { MemoryReservation } from '../memory-budget.ts';

/** Bytes that are parsed at a time. Limits how many tiny requests can be parsed ahead. */
const sliceBytes = 1_024;

/** What a client has sent and is not parsed yet. */
export class ReadAhead {
  readonly #memory: MemoryReservation;
  #bytes: Buffer | undefined;

  /** @param memory bounds the bytes that are kept */
  constructor(memory: MemoryReservation) {
    this.#memory = memory;
  }

  get isEmpty(): boolean {
    return this.#bytes === undefined;
  }

  add(chunk: Buffer): void {
    this.#bytes = this.#bytes === undefined ? chunk : Buffer.concat([this.#bytes, chunk]);
  }

  /** The next slice to parse. */
  take(): Buffer | undefined {
    const bytes = this.#bytes;
    if (bytes === undefined || bytes.length <= sliceBytes) {
      this.#bytes = undefined;
      return bytes;
    }
    this.#bytes = bytes.subarray(sliceBytes);
    return bytes.subarray(0, sliceBytes);
  }

  /** Reserves memory for the bytes that are left. @returns whether there was enough */
  reserve(): boolean {
    this.#memory.release();
    return this.#bytes === undefined || this.#memory.reserve(this.#bytes.length);
  }

  discard(): void {
    this.#bytes = undefined;
    this.#memory.release();
  }
}
