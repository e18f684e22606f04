import { setTimeout as wait } from 'node:timers/promises';
import { Random } from '../support/random.ts';
import type { Fleet } from './fleet.ts';
import { attack, hostileKinds } from './hostile-callers.ts';
import type { Instance } from './instance.ts';

interface SupervisorOptions {
  readonly seed: number;
  /** Whether signals are sent besides the one that ends the run. */
  readonly signals: boolean;
  /** Whether hostile callers connect. */
  readonly hostile: boolean;
  /** Milliseconds in which a process has to end after SIGTERM. */
  readonly stopBound: number;
}

/** A restart costs a second of both cores. */
const usualSignals = [
  ...Array<'SIGHUP'>(5).fill('SIGHUP'),
  'SIGTERM',
  'SIGTERM',
  'SIGTERM',
  'SIGKILL',
  'SIGKILL',
] as const;

/** Number of its actions, by name. */
type Actions = Map<string, number>;

/** Sends signals at random moments, restarts ended processes, and runs hostile callers, until it is stopped. */
export class Supervisor {
  readonly actions: Actions = new Map();
  readonly #fleet: Fleet;
  readonly #options: SupervisorOptions;
  readonly #attacks = new Set<Promise<void>>();
  readonly #loops: Promise<void>[];
  #stopping = false;

  constructor(fleet: Fleet, options: SupervisorOptions) {
    this.#fleet = fleet;
    this.#options = options;
    this.#loops = [this.#restart(), this.#signal(), this.#attack()];
  }

  /** Ends the loops, then every process with SIGTERM. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#loops);
    await Promise.all(this.#fleet.all.map((instance) => instance.stop(this.#options.stopBound)));
    await Promise.all(this.#attacks);
  }

  /** Starts each process that has ended, for whatever reason; those with a broken log only once more. */
  async #restart(): Promise<void> {
    while (!this.#stopping) {
      const down = this.#fleet.main.filter(({ state }) => state === 'down');
      await Promise.all(down.map((instance) => instance.start()));
      await wait(20);
    }
  }

  async #signal(): Promise<void> {
    const random = new Random(this.#options.seed, 'signals');
    const first = ['SIGHUP', 'SIGTERM', 'SIGKILL'] as const;
    for (let sent = 0; !this.#stopping; ) {
      await this.#pause(sent < first.length ? random.int(200, 600) : random.int(300, 2_500));
      if (this.#stopping || !this.#options.signals) continue;
      const name = first[sent] ?? random.pick(usualSignals);
      const up = this.#fleet.main.filter(({ state }) => state === 'up');
      // One always accepts requests.
      if (up.length === 0 || (name !== 'SIGHUP' && up.length < 2)) continue;
      this.#act(name, random.pick(up));
      sent += 1;
    }
  }

  #act(name: 'SIGHUP' | 'SIGTERM' | 'SIGKILL', instance: Instance): void {
    this.#count(name);
    if (name === 'SIGHUP') instance.rewrite();
    if (name === 'SIGTERM') void instance.stop(this.#options.stopBound);
    else instance.signal(name);
  }

  async #attack(): Promise<void> {
    const random = new Random(this.#options.seed, 'hostile');
    while (!this.#stopping) {
      await this.#pause(random.int(20, 400));
      const up = this.#fleet.main.filter(({ state }) => state === 'up');
      if (this.#stopping || !this.#options.hostile || up.length === 0) continue;
      const kind = random.pick(hostileKinds);
      this.#count(kind);
      const done = attack(kind, random.pick(up), random);
      this.#attacks.add(done);
      void done.finally(() => this.#attacks.delete(done));
    }
  }

  #count(name: string): void {
    this.actions.set(name, (this.actions.get(name) ?? 0) + 1);
  }

  async #pause(milliseconds: number): Promise<void> {
    const until = performance.now() + milliseconds;
    while (!this.#stopping && performance.now() < until) await wait(50);
  }
}
