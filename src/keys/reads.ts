import { addressName } from './address.ts';
import { SourceUnavailable } from './refusals.ts';
import type { KeyAddress } from './source.ts';

/** Reads at once: ten thousand logins must not fall upon a source that has just come back. */
const maximumRunning = 8;
/** Milliseconds a request waits for its read to begin. The read's own deadline is the source's. */
const maximumWait = 5000;

interface Read<Result> extends PromiseWithResolvers<Result> {
  readonly address: KeyAddress;
  readonly waitingSince: number;
}

/** Foreground: a request waits for it. Background: nobody does, so it goes last and may wait for long. */
export type Lane = 'foreground' | 'background';

/**
 * Which reads of the source run and which wait: one at a time per address with at most one more waiting, few
 * at a time in all, foreground first.
 */
export class Reads<Result> {
  readonly #read: (address: KeyAddress) => Promise<Result>;
  readonly #clock: () => number;
  readonly #running = new Map<string, Read<Result>>();
  readonly #waiting: Readonly<Record<Lane, Map<string, Read<Result>>>> = {
    foreground: new Map(),
    background: new Map(),
  };

  /** @param clock monotonic, milliseconds. */
  constructor(read: (address: KeyAddress) => Promise<Result>, clock: () => number) {
    this.#read = read;
    this.#clock = clock;
  }

  /** The result of the read under way, or of one that begins now or as soon as there is room. */
  join(address: KeyAddress, lane: Lane): Promise<Result> {
    return this.#running.get(addressName(address))?.promise ?? this.anew(address, lane);
  }

  /** The result of a read that begins after this call: one under way may have read the old value already. */
  anew(address: KeyAddress, lane: Lane): Promise<Result> {
    const name = addressName(address);
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

  async #begin(name: string, read: Read<Result>): Promise<void> {
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
