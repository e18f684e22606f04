/** A map of bounded size that evicts the least recently used entry. */
export class LruMap<Value> {
  readonly #limit: number;
  /** Least recently used first: a Map keeps insertion order. */
  readonly #values = new Map<string, Value>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(key: string): Value | undefined {
    const value = this.#values.get(key);
    if (value !== undefined) this.#moveToEnd(key, value);
    return value;
  }

  /** Like {@link get}, but does not count as a use. */
  peek(key: string): Value | undefined {
    return this.#values.get(key);
  }

  /** Replaces the value of an existing entry. Does not count as a use. */
  replace(key: string, value: Value): void {
    if (this.#values.has(key)) this.#values.set(key, value);
  }

  /** @returns the evicted value, if any */
  set(key: string, value: Value): Value | undefined {
    this.#moveToEnd(key, value);
    if (this.#values.size <= this.#limit) return undefined;
    const [leastRecent] = this.#values;
    if (leastRecent === undefined) return undefined;
    this.#values.delete(leastRecent[0]);
    return leastRecent[1];
  }

  /** @returns the deleted value */
  delete(key: string): Value | undefined {
    const value = this.#values.get(key);
    this.#values.delete(key);
    return value;
  }

  values(): Iterable<Value> {
    return this.#values.values();
  }

  #moveToEnd(key: string, value: Value): void {
    this.#values.delete(key);
    this.#values.set(key, value);
  }
}
