import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../support/random.ts';
import type { Instance } from './instance.ts';
import type { RequestRecord } from './ledger.ts';

/** Consecutive requests without a response after which a process counts as hung. */
const hungAfter = 8;

/** The instances behind one address: two with a log that is read, and some whose log is broken. */
export class Fleet {
  readonly main: readonly Instance[];
  readonly broken: readonly Instance[];
  readonly #lost = new Map<number, number>();

  constructor(main: readonly Instance[], broken: readonly Instance[]) {
    this.main = main;
    this.broken = broken;
  }

  get all(): readonly Instance[] {
    return [...this.main, ...this.broken];
  }

  /** Waits for an instance that is up; now and then one with a broken log. */
  async choose(random: Random): Promise<Instance> {
    const broken = this.broken.filter(({ state }) => state === 'up');
    if (broken.length > 0 && random.chance(0.04)) return random.pick(broken);
    const preferred = random.pick(this.main);
    const until = performance.now() + 30_000;
    while (performance.now() < until) {
      const up = this.main.filter(({ state }) => state === 'up');
      if (up.includes(preferred)) return preferred;
      if (up.length > 0) return random.pick(up);
      await wait(20);
    }
    throw new Error('no instance has been up for 30 s');
  }

  /** Ends a process that loses several requests in a row. */
  observe({ process, ending, abandoned }: RequestRecord): void {
    if (process === undefined || abandoned) return;
    const lost = ending === 'timeout' ? (this.#lost.get(process) ?? 0) + 1 : 0;
    this.#lost.set(process, lost);
    if (lost < hungAfter) return;
    const instance = this.all.find((one) => one.process?.id === process);
    if (instance !== undefined && instance.process?.exit === undefined) instance.giveUp();
  }
}
