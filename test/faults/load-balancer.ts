import type { Instance } from './instance.ts';

/** Returns the next instance for each connection, without those that it knows to be unready. */
export class LoadBalancer {
  readonly #instances: readonly Instance[];
  readonly #timer: NodeJS.Timeout;
  #ready: readonly Instance[];
  /** Excluded, even if it is ready. */
  #excluded: Instance | undefined;
  #looking = false;
  #turn = 0;

  /** @param every milliseconds between two requests to `/readyz`: how late the balancer may be */
  constructor(instances: readonly Instance[], every: number) {
    this.#instances = instances;
    this.#ready = instances;
    this.#timer = setInterval(() => void this.#look(), every);
  }

  /** The next instance; an unready one if none is ready. */
  next(): Instance {
    const ready = this.#ready.filter((instance) => instance !== this.#excluded);
    const candidates = ready.length > 0 ? ready : this.#instances;
    this.#turn += 1;
    const instance = candidates[this.#turn % candidates.length];
    if (instance === undefined) throw new TypeError('there are no instances');
    return instance;
  }

  /** Opens no more connections to it, as for a pod that is being deleted. */
  exclude(instance: Instance | undefined): void {
    this.#excluded = instance;
  }

  includes(instance: Instance): boolean {
    return this.#ready.includes(instance);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    const ready = await Promise.all(this.#instances.map((instance) => instance.isReady()));
    this.#ready = this.#instances.filter((_, index) => ready[index]);
    this.#looking = false;
  }
}
