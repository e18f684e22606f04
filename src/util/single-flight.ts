/** One run at a time: a call during a run shares its result. */
export class SingleFlight<T> {
  #running: Promise<T> | undefined;

  /** The run in flight. */
  get running(): Promise<T> | undefined {
    return this.#running;
  }

  run(work: () => Promise<T>): Promise<T> {
    this.#running ??= work().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }
}
