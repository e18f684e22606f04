import { Backoff } from '../util/backoff.ts';

/** Milliseconds between payments of a place with rejected keys. */
const steps = { initial: 2_000, max: 30_000 };
/** How many callers and paths with rejected payments are remembered. */
const maxPlaces = 100;
/** is the name of all others. No caller and path has this name. */
const furtherPlaces = '*';

/** A payment that is sent although its key was rejected. */
export interface Probe {
  /** To be called when the response was recorded, or there is none. */
  readonly end: () => void;
}

/**
 * When payments of a place, which is a caller and a path, may be sent although the gateway rejected some with each key:
 * after one 403 as a probe, which goes out alone; after two in a row one per step, to find out whether a key is accepted
 * again.
 */
export class HeldBackPayments {
  /** Those with a rejected payment since the last acceptance. */
  readonly #places = new Set<string>();
  /** By place. */
  readonly #steps = new Backoff(steps);
  /** By place: resolves when the payment that probes the rejected keys has its result. */
  readonly #probes = new Map<string, Promise<void>>();

  /** Whether no payment was rejected since the last acceptance. */
  isEmpty = true;

  /** Where the gateway rejects payments of very many places and accepts none, all further ones count as one place. */
  nameOf(place: string): string {
    return this.#places.has(place) || this.#places.size < maxPlaces ? place : furtherPlaces;
  }

  /** @param isAgain a single 403 may be about that payment */
  recordRejected(name: string, isAgain: boolean, now: number): void {
    this.isEmpty = false;
    this.#places.add(name);
    if (isAgain) this.#steps.recordFailure(now, {}, name);
  }

  /** The gateway accepted a key. */
  recordAccepted(): void {
    this.isEmpty = true;
    this.#places.clear();
    this.#steps.reset();
  }

  /** The next payment of each place may be sent at once. */
  resetSteps(): void {
    this.#steps.reset();
  }

  /** Of another payment of the place, which is in flight. */
  probeOf(place: string): Promise<void> | undefined {
    return this.#probes.get(place);
  }

  /** @returns milliseconds until the next payment of the place may be sent, if this one may not */
  probe(place: string, now: number): Probe | number {
    const name = this.nameOf(place);
    const isFirst = !this.#probes.has(place);
    const remaining = this.#steps.remaining(now, name);
    // Not at the next step: otherwise it would be found out again and again by the one payment that is rejected.
    if (this.#steps.failures(name) > 0 && (remaining > 0 || !isFirst)) return remaining;
    if (!isFirst) return { end() {} };
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#probes.set(place, promise);
    const end = (): void => {
      if (this.#probes.get(place) === promise) this.#probes.delete(place);
      resolve();
    };
    return { end };
  }
}
