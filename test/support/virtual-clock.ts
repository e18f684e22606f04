import { ProxyError } from '../../src/errors.ts';
import type { SetTimer } from '../../src/util/clock.ts';

/** Wall time at the start; milliseconds since 1970. */
export const noon = Date.UTC(2026, 0, 15, 12);

/** Resolves when nothing can continue without a clock, and a rejection that nobody handled was reported. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** How each of these ended so far: its result, the reason of its error, or `waits`. */
export async function endsOf(all: readonly Promise<unknown>[]): Promise<string[]> {
  const ends = all.map(() => 'waits');
  for (const [index, one] of all.entries())
    one.then(
      (result) => (ends[index] = String(result)),
      (error: unknown) => (ends[index] = error instanceof ProxyError ? error.reason : String(error)),
    );
  await settled();
  return ends;
}

/** A clock that only the test moves, in milliseconds, with its timers. */
export class VirtualClock {
  now = 0;
  /** Milliseconds that the wall clock is ahead. */
  ahead = 0;
  /** The next one last; of those at one time, the first that was set. */
  readonly #timers: { readonly at: number; readonly run: () => void }[] = [];

  readonly monotonic = (): number => this.now;
  readonly clock = (): number => noon + this.now + this.ahead;
  readonly setTimer: SetTimer = (run, milliseconds) => {
    const timer = { at: this.now + Math.max(0, milliseconds), run };
    const index = this.#timers.findIndex(({ at }) => at <= timer.at);
    this.#timers.splice(index === -1 ? this.#timers.length : index, 0, timer);
    return () => {
      if (this.#timers.includes(timer)) this.#timers.splice(this.#timers.indexOf(timer), 1);
    };
  };

  get timers(): number {
    return this.#timers.length;
  }

  wait(milliseconds: number): Promise<void> {
    return new Promise((resolve) => void this.setTimer(resolve, milliseconds));
  }

  /** Runs what is due meanwhile, in order. */
  async advance(milliseconds: number): Promise<void> {
    const end = this.now + milliseconds;
    await settled();
    for (;;) {
      const next = this.#timers.at(-1);
      if (next === undefined || next.at > end) break;
      this.#timers.pop();
      this.now = Math.max(this.now, next.at);
      next.run();
      await settled();
    }
    this.now = end;
  }
}
