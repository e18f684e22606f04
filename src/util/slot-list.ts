/**
 * What is under way now.
 *
 * An array whose places are taken again, not a Set: one that lives long and changes with every request keeps
 * what has left it from being collected until V8 collects old objects as well, and makes each of its
 * collections of young objects ten times as long.
 */
export class SlotList<Item> {
  readonly #slots: (Item | undefined)[] = [];
  readonly #free: number[] = [];

  /** @returns what to call, once, when the item leaves */
  add(item: Item): () => void {
    const place = this.#free.pop() ?? this.#slots.length;
    this.#slots[place] = item;
    return () => {
      this.#slots[place] = undefined;
      this.#free.push(place);
    };
  }

  values(): Item[] {
    return this.#slots.filter((item) => item !== undefined);
  }
}
