import { SourceUnavailable } from './errors.ts';
import type { LoginRef } from './key-source.ts';
import { loginRefString } from './login-ref.ts';

/** Reads at once: ten thousand logins must not fall upon a source that has just come back. */
const maximumRunning = 8;
/** Milliseconds a request waits for its read to begin. The read's own deadline is the source's. */
const maximumWait = 5000;

interface Fetch<Result> extends PromiseWithResolvers<Result> {
  readonly address: LoginRef;
  readonly waitingSince: number;
}

/** Foreground: a request waits for it. Background: nobody does, so it goes last and may wait for long. */
export type Priority = 'foreground' | 'background';

/**
 * Which reads of the source run and which wait: one at a time per address with at most one more waiting, few
 * at a time in all, foreground first.
 */
export class FetchQueue<Result> {
  readonly #read: (address: LoginRef) => Promise<Result>;
  readonly #clock: () => number;
  readonly #running = new Map<string, Fetch<Result>>();
  readonly #waiting: Readonly<Record<Priority, Map<string, Fetch<Result>>>> = {
    foreground: new Map(),
    background: new Map(),
  };

  /** @param clock monotonic, milliseconds. */
  constructor(read: (address: LoginRef) => Promise<Result>, clock: () => number) {
    this.#read = read;
    this.#clock = clock;
  }

  /** The result of the read under way, or of one that begins now or as soon as there is room. */
  fetch(address: LoginRef, lane: Priority): Promise<Result> {
    return this.#running.get(loginRefString(address))?.promise ?? this.fetchFresh(address, lane);
  }

  /** The result of a read that begins after this call: one under way may have read the old value already. */
  fetchFresh(address: LoginRef, lane: Priority): Promise<Result> {
    const name = loginRefString(address);
    const { foreground, background } = this.#waiting;
    const inFront = foreground.get(name);
    if (inFront !== undefined) return inFront.promise;
    const waitingSince = this.#clock();
    const read = { ...(background.get(name) ?? Promise.withResolvers<Result>()), address, waitingSince };
    background.delete(name);
    this.#waiting[lane].set(name, read);
    this.#beginWaiting();
    return read.promise;
  }

  #beginWaiting(): void {
    this.#refuseOverdue();
    for (const lane of [this.#waiting.foreground, this.#waiting.background]) {
      for (const [name, read] of lane) {
        if (this.#running.size >= maximumRunning) return;
        if (this.#running.has(name)) continue;
        lane.delete(name);
        void this.#begin(name, read);
      }
    }
  }

  async #begin(name: string, read: Fetch<Result>): Promise<void> {
    this.#running.set(name, read);
    try {
      read.resolve(await this.#read(read.address));
    } catch (error) {
      read.reject(error);
    }
    this.#running.delete(name);
    this.#beginWaiting();
  }

  /** Needs no timer: whatever runs ends within the source's deadline, and then this looks again. */
  #refuseOverdue(): void {
    const { foreground } = this.#waiting;
    const overdue = this.#clock() - maximumWait;
    for (const [name, read] of foreground) {
      if (read.waitingSince > overdue) return;
      foreground.delete(name);
      const tooMany = new Error('too many reads of the key source are waiting');
      read.reject(new SourceUnavailable(read.address, tooMany, 'not-asked'));
    }
  }
}
