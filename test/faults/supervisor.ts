import { setTimeout as wait } from 'node:timers/promises';
import { Random } from '../support/random.ts';
import { until } from '../support/until.ts';
import type { Instance } from './instance.ts';

/** A restart costs a second of both cores. */
const signals = [
  ...(['SIGHUP', 'SIGTERM', 'SIGKILL'] as const),
  ...(['SIGHUP', 'SIGTERM', 'SIGHUP', 'SIGHUP', 'SIGTERM', 'SIGKILL', 'SIGHUP'] as const),
];

/** Sends signals at random moments, and restarts ended processes, until it is stopped. */
export class Supervisor {
  readonly #instances: readonly Instance[];
  readonly #seed: number;
  readonly #loops: Promise<void>[];
  #stopping = false;

  constructor(instances: readonly Instance[], seed: number) {
    this.#instances = instances;
    this.#seed = seed;
    this.#loops = [this.#restart(), this.#signal()];
  }

  get #up(): readonly Instance[] {
    return this.#instances.filter(({ state }) => state === 'up');
  }

  /** Waits for an instance that is up. */
  async choose(random: Random): Promise<Instance> {
    await until(() => this.#up.length > 0, 'an instance is up', 30);
    return random.pick(this.#up);
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#loops);
  }

  async #restart(): Promise<void> {
    for (; !this.#stopping; await wait(20)) {
      const down = this.#instances.filter(({ state }) => state === 'down');
      await Promise.all(down.map((instance) => instance.start()));
    }
  }

  async #signal(): Promise<void> {
    const random = new Random(this.#seed, 'signals');
    for (let sent = 0; !this.#stopping; ) {
      await wait(sent < 3 ? random.int(200, 600) : random.int(300, 2_500));
      const name = signals[sent % signals.length] ?? 'SIGHUP';
      // One always accepts requests.
      if (this.#stopping || this.#up.length < 2) continue;
      const instance = random.pick(this.#up);
      if (name === 'SIGTERM') void instance.stop();
      else instance.signal(name);
      sent += 1;
    }
  }
}
