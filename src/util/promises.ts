import { setTimer } from './clock.ts';

/** Whether the work ends within this number of milliseconds; else it continues. @throws what it throws in that time */
export async function endsWithin(
  milliseconds: number,
  work: Promise<unknown>,
  startTimer = setTimer,
): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>();
  const cancel = startTimer(() => resolve(false), milliseconds);
  return Promise.race([work.then(() => true), late]).finally(cancel);
}

/** As `work`, but rejects at once when the signal aborts, also while `work` is what no signal ends, such as reading a file. */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  return Promise.race([work, aborted]).finally(() => signal.removeEventListener('abort', abort));
}

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
