import { includesKey, sameKey } from './key.ts';
import type { UsableKey, UsableKeys } from './ring.ts';

/**
 * What a response says about the key that signed its request:
 * - `accepted`: a 2xx with a body of the gateway's own;
 * - `error`: the same, but the gateway reports an error in it, which it may have found before it looked at the signature;
 * - `refused`: 400, 404, 409 or 422 with such a body: proof only beside a rejection of the same form;
 * - `rejected`: 401 or 403;
 * - `silent`: everything else, such as the page of a load balancer, says nothing.
 */
export type Testimony = 'accepted' | 'error' | 'refused' | 'rejected' | 'silent';

/**
 * Why a key signs: the login has no other one (`only-key`), the gateway accepted it last (`last-accepted`), nothing
 * speaks for another one than the newest (`newest`), or it is tried after a rejection (`tried`).
 */
export type SelectionReason = 'only-key' | 'last-accepted' | 'newest' | 'tried';

/** Where a request came from, and what it is about: what is rejected in one place may be accepted in another one. */
export interface Place {
  /** A configured name. */
  readonly caller: string;
  /** Endpoint or endpoint group in the path; empty without one. */
  readonly endpoint: string;
}

/** One caller's rejected requests at one endpoint. */
interface Doubt {
  /** Whether its last request was rejected, and the current key was not accepted there since. */
  isRejected: boolean;
  /** Apart, since what a payment says of a key is less than what a query says. */
  readonly queries: Steps;
  readonly payments: Steps;
}

/** When other keys may be tried. */
interface Steps {
  /** How often they were tried in vain. */
  tries: number;
  /** When they may be tried again; monotonic, milliseconds. */
  dueAt: number;
}

/** Milliseconds between two tries of other keys for the same caller and endpoint; each doubles it. */
const steps = { first: 1_000, last: 10_000 };
const noSteps: Steps = { tries: 0, dueAt: Number.NEGATIVE_INFINITY };
/** The latest endpoints of a caller with rejected requests that are remembered. */
const maxEndpoints = 8;

/**
 * Which key of a ring signs: the current one, and after a rejection which other one is tried.
 *
 * The current key is the newest at first. It changes only if the gateway accepts another one, in a request that was sent
 * later than the last accepted one, or if it leaves the ring. So nothing that a client can invent moves it.
 */
export class KeyChoice {
  #keys: UsableKeys;
  #current: UsableKey;
  #isAccepted = false;
  #revision = 0;
  /** When the last accepted request was sent: what was sent before it is too old to change the current key. */
  #acceptedSentAt = Number.NEGATIVE_INFINITY;
  #acceptedAt = Number.NEGATIVE_INFINITY;
  /** Keys that were rejected since they were last accepted, whatever the request was. Only shown. */
  #rejected: readonly UsableKey[] = [];
  /** By caller, then by endpoint, the latest last. */
  readonly #doubts = new Map<string, Map<string, Doubt>>();
  #isOnTrial = false;

  constructor(keys: UsableKeys) {
    this.#keys = keys;
    this.#current = keys[0];
  }

  /** Newest first. */
  get keys(): UsableKeys {
    return this.#keys;
  }

  /** Another number as soon as the keys differ. */
  get revision(): number {
    return this.#revision;
  }

  get current(): UsableKey {
    return this.#current;
  }

  /** The current key, if the gateway accepted it. */
  get accepted(): UsableKey | undefined {
    return this.#isAccepted ? this.#current : undefined;
  }

  /** When a key was last accepted; monotonic, milliseconds. */
  get acceptedAt(): number {
    return this.#acceptedAt;
  }

  reasonFor(key: UsableKey): SelectionReason {
    if (this.#keys.length < 2) return 'only-key';
    if (!sameKey(key, this.#current)) return 'tried';
    return this.#isAccepted ? 'last-accepted' : 'newest';
  }

  /** Whether the gateway rejected the key, and has not accepted it since. */
  isRejected(key: UsableKey): boolean {
    return includesKey(this.#rejected, key);
  }

  includes(key: UsableKey): boolean {
    return includesKey(this.#keys, key);
  }

  /** The keys were read again. With different ones, each is worth a try at once. */
  update(keys: UsableKeys): void {
    const isSame =
      keys.length === this.#keys.length && keys.every((key, index) => isSameKey(key, this.#keys[index]));
    // The same key may have another version now.
    const current = keys.find((key) => sameKey(key, this.#current));
    this.#keys = keys;
    this.#current = current ?? keys[0];
    if (isSame) return;
    this.#revision += 1;
    this.#isAccepted &&= current !== undefined;
    this.#rejected = this.#rejected.filter((key) => includesKey(keys, key));
    this.resetSteps();
  }

  /** Other keys may be tried at once: the ring is another one, or the key source is back. */
  resetSteps(): void {
    for (const doubts of this.#doubts.values())
      for (const { queries, payments } of doubts.values())
        for (const one of [queries, payments]) Object.assign(one, noSteps);
  }

  /**
   * The gateway accepted the key.
   *
   * @param sentAt not later than the first byte; monotonic, milliseconds, as `now`
   * @returns whether this is another {@link accepted} key than before
   */
  recordAccepted(key: UsableKey, sentAt: number, place: Place, now: number): boolean {
    this.#rejected = this.#rejected.filter((other) => !sameKey(other, key));
    if (!this.includes(key)) return false;
    this.#acceptedAt = now;
    const isCurrent = sameKey(key, this.#current);
    const doubt = this.#doubts.get(place.caller)?.get(place.endpoint);
    if (isCurrent && doubt !== undefined) doubt.isRejected = false;
    if (sentAt < this.#acceptedSentAt) return false;
    this.#acceptedSentAt = sentAt;
    if (isCurrent && this.#isAccepted) return false;
    this.#isAccepted = true;
    if (!isCurrent) this.#doubts.clear();
    this.#current = key;
    return true;
  }

  /** The gateway rejected a request that was signed with the key. */
  recordRejected(key: UsableKey, place: Place): void {
    if (this.includes(key) && !this.isRejected(key)) this.#rejected = [...this.#rejected, key];
    // What was in flight when another key became the current one says nothing about that.
    if (sameKey(key, this.#current)) this.#doubtOf(place).isRejected = true;
  }

  /** Whether other keys may be tried for a rejected query of this place now. */
  mayTry({ caller, endpoint }: Place, now: number): boolean {
    const { dueAt } = this.#doubts.get(caller)?.get(endpoint)?.queries ?? noSteps;
    return this.#keys.length > 1 && now >= dueAt;
  }

  /** They did not help: the next time is a step later. */
  recordTried(place: Place, now: number): void {
    takeStep(this.#doubtOf(place).queries, now);
  }

  /**
   * For a payment of a caller and endpoint whose last one was rejected: the next key, which this payment tries. One at a
   * time. `undefined`: the current key signs.
   */
  beginTrial({ caller, endpoint }: Place, now: number): UsableKey | undefined {
    const doubt = this.#doubts.get(caller)?.get(endpoint);
    if (this.#isOnTrial || doubt?.isRejected !== true || now < doubt.payments.dueAt) return undefined;
    const others = this.#keys.filter((key) => !sameKey(key, this.#current));
    const next = others[doubt.payments.tries % others.length];
    this.#isOnTrial = next !== undefined;
    return next;
  }

  /** Unless the key that was tried is the current one now, the next trial of this place is a step later. */
  endTrial({ caller, endpoint }: Place, now: number): void {
    this.#isOnTrial = false;
    const doubt = this.#doubts.get(caller)?.get(endpoint);
    if (doubt !== undefined) takeStep(doubt.payments, now);
  }

  #doubtOf({ caller, endpoint }: Place): Doubt {
    const ofCaller = this.#doubts.get(caller) ?? new Map<string, Doubt>();
    const none = { isRejected: false, queries: { ...noSteps }, payments: { ...noSteps } };
    const doubt = ofCaller.get(endpoint) ?? none;
    ofCaller.delete(endpoint);
    ofCaller.set(endpoint, doubt);
    const [oldest] = ofCaller.keys();
    if (ofCaller.size > maxEndpoints && oldest !== undefined) ofCaller.delete(oldest);
    this.#doubts.set(caller, ofCaller);
    return doubt;
  }
}

function takeStep(one: Steps, now: number): void {
  if (now < one.dueAt) return;
  one.dueAt = now + Math.min(steps.last, steps.first * 2 ** one.tries);
  one.tries += 1;
}

/** Mostly it is the same object. */
function isSameKey(key: UsableKey, other: UsableKey | undefined): boolean {
  return other !== undefined && sameKey(key, other);
}
