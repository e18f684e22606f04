import { Refusal } from '../errors.ts';
import type { Crossing } from './crossing.ts';
import { Roster } from './roster.ts';

/** All that is on its way to any gateway, so that a process that has to end can still say what became of it. */
export class UnderWay {
  readonly #crossings = new Roster<Crossing>();
  #abandoned = false;

  /** @throws Refusal `shutting-down` */
  checkOpen(): void {
    if (this.#abandoned) throw new Refusal('shutting-down', 'This instance has stopped.');
  }

  add(crossing: Crossing): void {
    const leave = this.#crossings.enter(crossing);
    crossing.reply.then(leave, leave);
  }

  /** Waits for no reply any longer, and lets nothing set out any more. */
  abandon(): void {
    this.#abandoned = true;
    for (const crossing of this.#crossings.present()) crossing.abandon();
  }
}
