import { includesKey, sameKey, type UsableKey, type UsableKeys } from './ring.ts';

/**
 * What a response says about the key that signed its request:
 * - `accepted`: a 2xx with a body of the gateway's own;
 * - `error`: the same, but the gateway reports an error in it, which it may have found before it looked at the signature;
 * - `refused`: 400, 404, 409 or 422 with such a body: proof only beside a rejection of the same form;
 * - `rejected`: 401 or 403;
 * - `silent`: everything else, such as the page of a load balancer, says nothing.
 */
export type Testimony = 'accepted' | 'error' | 'refused' | 'rejected' | 'silent';

/** Where a request came from, and what it is about: what is rejected in one place may be accepted in another one. */
export interface Place {
  /** A configured name. */
  readonly caller: string;
  /** Endpoint or endpoint group in the path; empty without one. */
  readonly endpoint: string;
  /** A query, not a payment. */
  readonly readOnly: boolean;
}

/** When other keys may be tried. */
interface Steps {
  tries: number;
  /** Monotonic, milliseconds. */
  dueAt: number;
}

/** One caller's rejected requests at one endpoint. Where queries are not permitted, payments may be, so each has its steps. */
interface Doubt {
  /** Whether a payment was rejected, and the current key was not accepted there since. */
  isRejected: boolean;
  readonly queries: Steps;
  readonly payments: Steps;
}

/** Milliseconds between two tries of other keys for the same caller and endpoint; each doubles it. */
const stepTimes = { first: 1_000, last: 10_000 };
/** Milliseconds for which a payment that tries another key is the only one of its caller. */
const trialTime = 1_000;
/** Milliseconds after an acceptance in which a rejection of the key is not shown. */
const wellProven = 10_000;
/** The endpoints of a caller with rejected requests that are remembered. */
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
  #isAccepted: boolean;
  #revision = 0;
  /** When the last accepted request was sent: what was sent before it is too old to change the current key. */
  #acceptedSentAt = Number.NEGATIVE_INFINITY;
  #acceptedAt = Number.NEGATIVE_INFINITY;
  /** Keys that were rejected since they were last accepted, whatever the request was. Only shown. */
  #rejected: readonly UsableKey[] = [];
  /** By caller, then by endpoint, the latest last. */
  readonly #doubts = new Map<string, Map<string, Doubt>>();
  /** By caller: until when its payment that tries another key is waited for; monotonic, milliseconds. */
  readonly #trials = new Map<string, number>();
  readonly #random: () => number;

  /**
   * @param random from 0 up to 1
   * @param before has the same keys, and a current one
   */
  constructor(keys: UsableKeys, random: () => number, before?: KeyChoice) {
    this.#random = random;
    this.#keys = keys;
    this.#current = before?.current ?? keys[0];
    this.#isAccepted = before?.accepted !== undefined;
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

  /**
   * Whether the gateway rejected the key, and has not accepted it since.
   *
   * @param now unless it accepted the current key just before: then the rejection was about its request
   */
  isRejected(key: UsableKey, now = Number.POSITIVE_INFINITY): boolean {
    const isWellProven = sameKey(key, this.#current) && now < this.#acceptedAt + wellProven;
    return !isWellProven && includesKey(this.#rejected, key);
  }

  includes(key: UsableKey): boolean {
    return includesKey(this.#keys, key);
  }

  /** The keys were read again. With different ones, each is worth a try at once. */
  update(keys: UsableKeys): void {
    const isSame =
      keys.length === this.#keys.length && keys.every((key, index) => sameKey(key, this.#keys[index]));
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
        for (const one of [queries, payments]) Object.assign(one, newSteps());
  }

  /**
   * The gateway accepted the key.
   *
   * @param sentAt not later than the first byte; monotonic, milliseconds, as `now`
   * @returns whether this is another {@link accepted} key than before
   */
  recordAccepted(key: UsableKey, sentAt: number, place: Place, now: number): boolean {
    if (this.isRejected(key)) this.#rejected = this.#rejected.filter((other) => !sameKey(other, key));
    // It may have another version now than when it signed.
    const own = this.#keys.find((one) => sameKey(one, key));
    if (own === undefined) return false;
    this.#acceptedAt = now;
    const isCurrent = sameKey(own, this.#current);
    const doubt = this.#doubtAt(place);
    if (isCurrent && doubt !== undefined) doubt.isRejected = false;
    if (sentAt < this.#acceptedSentAt) return false;
    this.#acceptedSentAt = sentAt;
    if (isCurrent && this.#isAccepted) return false;
    this.#isAccepted = true;
    if (!isCurrent) this.#doubts.clear();
    this.#current = own;
    return true;
  }

  /** The gateway rejected a request that was signed with the key. */
  recordRejected(key: UsableKey, place: Place): void {
    if (this.includes(key) && !this.isRejected(key)) this.#rejected = [...this.#rejected, key];
    // Not for a key that signed before the current one: the payment was in flight when the gateway changed.
    if (!place.readOnly && sameKey(key, this.#current)) this.#rememberedAt(place).isRejected = true;
  }

  /** Whether other keys may be tried for a rejected request of this place now. */
  mayTry(place: Place, now: number): boolean {
    const doubt = this.#doubtAt(place);
    return this.#keys.length > 1 && (doubt === undefined || now >= stepsOf(place, doubt).dueAt);
  }

  /** Other keys did not help. If they may be tried, the next time is a step later. @returns whether they may */
  takeStep(place: Place, now: number): boolean {
    if (!this.mayTry(place, now)) return false;
    const steps = stepsOf(place, this.#rememberedAt(place));
    steps.dueAt = now + Math.min(stepTimes.last, stepTimes.first * 2 ** steps.tries);
    steps.tries += 1;
    return true;
  }

  /**
   * For a payment of a caller and endpoint whose last one was rejected: the next key, which this payment tries. One of a
   * caller at a time, but a slow response does not keep others from theirs. `undefined`: the current key signs.
   */
  beginTrial(place: Place, now: number): UsableKey | undefined {
    const doubt = this.#doubtAt(place);
    if (doubt?.isRejected !== true || now < (this.#trials.get(place.caller) ?? now)) return undefined;
    const others = this.#keys.filter((key) => !sameKey(key, this.#current));
    const next = others[doubt.payments.tries % others.length];
    if (next === undefined || !this.mayTry(place, now)) return undefined;
    this.#trials.set(place.caller, now + trialTime);
    return next;
  }

  endTrial({ caller }: Place): void {
    this.#trials.delete(caller);
  }

  #doubtAt({ caller, endpoint }: Place): Doubt | undefined {
    return this.#doubts.get(caller)?.get(endpoint);
  }

  /** The doubt of a place, from now on if there was none. */
  #rememberedAt({ caller, endpoint }: Place): Doubt {
    const ofCaller = this.#doubts.get(caller) ?? new Map<string, Doubt>();
    const doubt = ofCaller.get(endpoint) ?? { isRejected: false, queries: newSteps(), payments: newSteps() };
    if (!ofCaller.has(endpoint) && ofCaller.size >= maxEndpoints) this.#forgetOneOf(ofCaller);
    ofCaller.set(endpoint, doubt);
    this.#doubts.set(caller, ofCaller);
    return doubt;
  }

  /** Any, not the oldest: of more endpoints in turn, none would be known at its next payment. */
  #forgetOneOf(endpoints: Map<string, Doubt>): void {
    const name = [...endpoints.keys()][Math.floor(this.#random() * endpoints.size)];
    if (name !== undefined) endpoints.delete(name);
  }
}

function stepsOf({ readOnly }: Place, { queries, payments }: Doubt): Steps {
  return readOnly ? queries : payments;
}

function newSteps(): Steps {
  return { tries: 0, dueAt: Number.NEGATIVE_INFINITY };
}
