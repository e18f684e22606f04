/** A map of bounded size that gives up what was used longest ago. */
export class LruMap<Value> {
  readonly #limit: number;
  /** In order of use: a Map keeps the order of insertion. */
  readonly #values = new Map<string, Value>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(name: string): Value | undefined {
    const value = this.#values.get(name);
    if (value !== undefined) this.#moveToEnd(name, value);
    return value;
  }

  /** As {@link get}, but it is no use. */
  peek(name: string): Value | undefined {
    return this.#values.get(name);
  }

  /** Another value for a name that is there; it is no use. */
  replace(name: string, value: Value): void {
    if (this.#values.has(name)) this.#values.set(name, value);
  }

  /** Gives back the value that had to go to make room, if one had to. */
  set(name: string, value: Value): Value | undefined {
    this.#moveToEnd(name, value);
    if (this.#values.size <= this.#limit) return undefined;
    const [oldest] = this.#values;
    if (oldest === undefined) return undefined;
    this.#values.delete(oldest[0]);
    return oldest[1];
  }

  /** Gives back the value that was there. */
  delete(name: string): Value | undefined {
    const value = this.#values.get(name);
    this.#values.delete(name);
    return value;
  }

  values(): Iterable<Value> {
    return this.#values.values();
  }

  #moveToEnd(name: string, value: Value): void {
    this.#values.delete(name);
    this.#values.set(name, value);
  }
}
