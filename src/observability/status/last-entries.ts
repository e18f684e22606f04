/** The last entries of a stream, at most `limit`. */
export class LastEntries<T> {
  readonly #limit: number;
  readonly #entries: T[] = [];
  /** Where the next entry goes; the oldest is there once all places are used. */
  #next = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  add(entry: T): void {
    this.#entries[this.#next] = entry;
    this.#next = (this.#next + 1) % this.#limit;
  }

  newestFirst(): T[] {
    return [...this.#entries.slice(this.#next), ...this.#entries.slice(0, this.#next)].toReversed();
  }
}
