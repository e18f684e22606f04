/**
 * What is under way now.
 *
 * An array whose places are taken again, not a Set: one that lives long and changes with every request keeps
 * what has left it from being collected until V8 collects old objects as well, and makes each of its
 * collections of young objects ten times as long.
 */
export class Roster<Item> {
  readonly #places: (Item | undefined)[] = [];
  readonly #free: number[] = [];

  /** @returns what to call, once, when the item leaves */
  enter(item: Item): () => void {
    const place = this.#free.pop() ?? this.#places.length;
    this.#places[place] = item;
    return () => {
      this.#places[place] = undefined;
      this.#free.push(place);
    };
  }

  present(): Item[] {
    return this.#places.filter((item) => item !== undefined);
  }
}
