import { Refusal } from '../errors.ts';
import type { Crossing } from './crossing.ts';

/** All that is on its way to any gateway, so that a process that has to end can still say what became of it. */
export class UnderWay {
  // Places that are taken again, not a Set: one that lives long and changes with every request keeps what has
  // left it from being collected, for as long as V8 only collects young objects.
  readonly #crossings: (Crossing | undefined)[] = [];
  readonly #free: number[] = [];
  #abandoned = false;

  /** @throws Refusal `shutting-down` */
  checkOpen(): void {
    if (this.#abandoned) throw new Refusal('shutting-down', 'This instance has stopped. Nothing was sent.');
  }

  add(crossing: Crossing): void {
    const place = this.#free.pop() ?? this.#crossings.length;
    this.#crossings[place] = crossing;
    const leave = (): void => {
      this.#crossings[place] = undefined;
      this.#free.push(place);
    };
    crossing.reply.then(leave, leave);
  }

  /** Waits for no reply any longer, and lets nothing set out any more. */
  abandon(): void {
    this.#abandoned = true;
    for (const crossing of this.#crossings) crossing?.abandon();
  }
}
