import { setTimeout as wait } from 'node:timers/promises';
import { codeOf } from '../support/raw-http.ts';

/** How often the attacker saw what: responses by status, ends of connections. */
export class Tally {
  readonly counts: Record<string, number> = {};

  add(event: string | number): void {
    this.counts[event] = (this.counts[event] ?? 0) + 1;
  }

  /** Does the work again and again, so many times at once. An error, such as a closed connection, is counted. */
  async repeat(times: number, work: (index: number) => Promise<unknown>): Promise<void> {
    const loop = async (index: number): Promise<void> => {
      for (;;) {
        try {
          await work(index);
        } catch (error) {
          this.add(codeOf(error));
          await wait(20);
        }
      }
    };
    await Promise.all(Array.from({ length: times }, (_, index) => loop(index)));
  }
}
