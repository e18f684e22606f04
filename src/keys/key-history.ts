import { sameKey } from './key.ts';
import { includes, isSame, type Rejections } from './key-rejections.ts';
import type { UsableKey } from './key-source.ts';
import { RetrySteps } from './retry-steps.ts';
import { type SelectionReason, selectionReason } from './selection-reason.ts';

/** The distinct usable keys of one login and kind, newest first: keys/ring. */
export type UsableKeys = readonly [UsableKey, ...UsableKey[]];

/** A request to the gateway, for what its response says about the key. */
export interface KeyUse {
  readonly key: UsableKey;
  /** Name of the operation: one that is not enabled for a login is rejected with every key. */
  readonly operation: string;
  /** Monotonic, milliseconds; not later than the first byte sent. */
  readonly sentAt: number;
}

/** The same while the request is made: the key may change, and the time is that of the last attempt. */
export type MutableUse = { -readonly [Field in keyof KeyUse]: KeyUse[Field] };

/** Whether a request may be sent again with another key. */
export type RetryPolicy = 'bold' | 'careful';

/** Steps of one second before looks for a newer key become rarer: the gateway may be first by some seconds. */
const steadyLooks = 5;

/**
 * What the gateway made of the keys of one login and kind, and what follows for the next request.
 *
 * Only an acceptance moves the preference. A rejection keeps payments off a key until it is accepted again,
 * unless it says nothing about the key: the operation is rejected with every key, or was never accepted while
 * others are.
 */
export class KeyHistory {
  /** When the key source may be read past the cache for this kind of key. */
  readonly looks = new RetrySteps(steadyLooks);
  #keys: readonly UsableKey[] = [];
  #lastAccepted: KeyUse | undefined;
  /** The last acceptance of each key. */
  #acceptances: readonly KeyUse[] = [];
  /** Whether {@link #lastAccepted} was not rejected since. */
  #accepting = false;
  #rejections: Rejections[] = [];
  /** Operations that were accepted at least once, and when the last of those requests was sent. */
  readonly #enabled = new Map<string, number>();
  /** Operations whose rejections say nothing about a key. */
  readonly #denied = new Set<string>();
  /** Operations last rejected with a key that others were then accepted with: no sign of a switch. */
  readonly #contradicted = new Set<string>();

  /** The ring as it is now. A change makes each of its keys a candidate again; keys that have gone are forgotten. */
  observe(keys: UsableKeys): void {
    const known = this.#keys;
    this.#keys = keys;
    if (keys.length === known.length && keys.every((key, index) => isSame(key, known[index]))) return;
    this.#rejections = this.#rejections.filter(({ key }) => includes(keys, key));
    if (this.#acceptedAmong(keys) === undefined) this.#lastAccepted = undefined;
    this.#acceptances = this.#acceptances.filter(({ key }) => includes(keys, key));
    this.#denied.clear();
    this.#contradicted.clear();
    this.#resetSteps();
  }

  /**
   * Bold: the newest key, unless it was rejected and another one accepted. Careful: the key accepted last; once
   * that was rejected another one, so that no key can block payments.
   */
  select([newest, ...others]: UsableKeys, manner: RetryPolicy): UsableKey {
    if (others.length === 0) return newest;
    const keys = [newest, ...others];
    const accepted = this.#acceptedAmong(keys);
    if (manner === 'bold') return this.#wasRejected(newest) ? (accepted ?? newest) : newest;
    const inOrder = [...new Set([accepted ?? newest, ...keys])];
    const unrejected = inOrder.find((key) => !this.isRejected(key));
    if (unrejected !== undefined) return unrejected;
    const rejectedAt = (key: UsableKey): number => this.#find(key)?.carefulAt ?? 0;
    return inOrder.toSorted((a, b) => rejectedAt(a) - rejectedAt(b))[0] ?? newest;
  }

  /** Whether payments avoid the key: the gateway rejected it, and has not accepted it since. */
  isRejected(key: UsableKey): boolean {
    const operations = this.#find(key)?.byOperation.keys() ?? [];
    return [...operations].some((operation) => !this.#denied.has(operation));
  }

  /** Whether a careful choice may be another key by now. */
  isOutdated(key: UsableKey): boolean {
    const [newest, ...others] = this.#keys;
    if (newest === undefined || this.isRejected(key)) return true;
    return !sameKey(key, this.select([newest, ...others], 'careful'));
  }

  /** Why the key is the one to sign with now, for the log. */
  reasonFor(key: UsableKey): SelectionReason {
    return selectionReason(key, this.#keys, this.#lastAccepted?.key, this.isRejected(key));
  }

  /** Whether payments would avoid the key they prefer: a trial in flight may tell a better one. */
  isInDoubt(keys: UsableKeys): boolean {
    return this.isRejected(this.#acceptedAmong(keys) ?? keys[0]);
  }

  /** Whether there is a newer key than the one accepted last, which may be about to be replaced. */
  isAwaitingNewest([newest, ...others]: UsableKeys): boolean {
    return others.length > 0 && !isSame(newest, this.#lastAccepted?.key);
  }

  /** The key to use in place of rejected ones without a trial: the gateway accepts it now. */
  acceptedInstead(operation: string, tried: readonly UsableKey[]): UsableKey | undefined {
    const key = this.#lastAccepted?.key;
    if (key === undefined || !this.#accepting || includes(tried, key)) return undefined;
    const isRejected = this.#wasRejectedBy(key, operation);
    if (isRejected || this.#denied.has(operation) || !this.#enabled.has(operation)) return undefined;
    return includes(this.#keys, key) ? key : undefined;
  }

  /**
   * The next key to try in place of rejected ones: the one accepted last, then the newest that is due.
   *
   * @param now monotonic, milliseconds
   */
  nextCandidate(operation: string, tried: readonly UsableKey[], now: number): UsableKey | undefined {
    const isDue = (key: UsableKey): boolean => this.#find(key)?.steps.get(operation)?.isDue(now) ?? true;
    const due = this.#keys.filter((key) => !includes(tried, key) && isDue(key));
    return this.#acceptedAmong(due) ?? due[0];
  }

  /** A key was tried in place of another one and not accepted: it has to wait for its next step. */
  recordFruitless({ key, operation, sentAt }: KeyUse): void {
    const { steps } = this.#rejectionsOf(key);
    const known = steps.get(operation) ?? new RetrySteps();
    known.recordFruitless(sentAt);
    steps.set(operation, known);
  }

  /** Responses may overtake each other: one to an earlier request moves nothing. */
  recordAccepted(use: KeyUse): void {
    const { key, operation, sentAt } = use;
    this.#enabled.set(operation, sentAt);
    this.#denied.delete(operation);
    const rejections = this.#find(key);
    if (rejections !== undefined) this.#clear(rejections, sentAt);
    this.#contradicted.delete(operation);
    if (this.#wasRejected(key)) return;
    this.#rejections = this.#rejections.filter((one) => one !== rejections);
    this.#acceptances = [...this.#acceptances.filter((one) => !isSame(key, one.key)), use];
    if (sentAt < (this.#lastAccepted?.sentAt ?? sentAt)) return;
    this.#lastAccepted = use;
    this.#accepting = true;
  }

  /**
   * @param now when the response was received; monotonic, milliseconds
   * @param manner whether the request can be sent again
   * @param aboutKey `false` where the response gives another reason
   */
  recordRejected({ key, operation }: KeyUse, now: number, manner: RetryPolicy, aboutKey: boolean): void {
    const isDenied = this.#denied.has(operation);
    const isSign = !isDenied && !this.#contradicted.has(operation);
    if (isSign && this.#accepting && isSame(key, this.#lastAccepted?.key)) {
      this.#accepting = false;
      this.#resetSteps();
    }
    const isNews = !isDenied || (this.#enabled.has(operation) && !this.#wasRejectedBy(key, operation));
    if (aboutKey && isNews) this.#addRejection(key, operation, now, manner);
  }

  /**
   * Another key was accepted in place of these: their rejections were about the key, whatever else was said of
   * them. Gives whether this is the first time since the first of them was rejected.
   *
   * @param since when that was; monotonic, milliseconds
   * @param now monotonic, milliseconds
   */
  recordReplaced(others: readonly UsableKey[], operation: string, since: number, now: number): boolean {
    for (const key of others) {
      const isKnown = this.#wasRejectedBy(key, operation);
      const isAcceptedSince = this.#acceptances.some((one) => one.sentAt > since && isSame(key, one.key));
      if (!isKnown && !isAcceptedSince) this.#addRejection(key, operation, now, 'bold');
    }
    const [first] = others;
    if (first === undefined) return false;
    const rejections = this.#rejectionsOf(first);
    const isFirst = !rejections.replaced;
    rejections.replaced = true;
    return isFirst;
  }

  /**
   * No key helped. If the operation was rejected with every one of them, that says nothing about keys.
   *
   * @param since when the first of `rejected` was; monotonic, milliseconds
   */
  recordNothingHelped(operation: string, rejected: readonly UsableKey[], since: number): void {
    if ((this.#enabled.get(operation) ?? since) > since) return;
    const isRejectedBy = (key: UsableKey): boolean =>
      includes(rejected, key) || this.#wasRejectedBy(key, operation);
    if (this.#keys.every(isRejectedBy)) this.#denied.add(operation);
  }

  /** What an acceptance of the key, sent then, proves outdated; an operation never accepted is not enabled. */
  #clear({ byOperation }: Rejections, sentAt: number): void {
    for (const [operation, { first, last }] of byOperation) {
      const isEnabled = this.#enabled.has(operation);
      if (sentAt < (isEnabled ? last : first)) continue;
      (isEnabled ? this.#contradicted : this.#denied).add(operation);
      byOperation.delete(operation);
    }
  }

  #addRejection(key: UsableKey, operation: string, now: number, manner: RetryPolicy): void {
    const rejections = this.#rejectionsOf(key);
    const first = rejections.byOperation.get(operation)?.first ?? now;
    rejections.byOperation.set(operation, { first, last: now });
    if (manner === 'careful') rejections.carefulAt = now;
  }

  #acceptedAmong(keys: readonly UsableKey[]): UsableKey | undefined {
    return keys.find((key) => isSame(key, this.#lastAccepted?.key));
  }

  #wasRejectedBy(key: UsableKey, operation: string): boolean {
    return this.#find(key)?.byOperation.has(operation) ?? false;
  }

  #wasRejected(key: UsableKey): boolean {
    return (this.#find(key)?.byOperation.size ?? 0) > 0;
  }

  #resetSteps(): void {
    this.looks.reset();
    for (const { steps } of this.#rejections) steps.clear();
  }

  #find(key: UsableKey): Rejections | undefined {
    return this.#rejections.find((one) => sameKey(one.key, key));
  }

  #rejectionsOf(key: UsableKey): Rejections {
    const known = this.#find(key);
    if (known !== undefined) return known;
    const fresh = { key, byOperation: new Map(), carefulAt: 0, steps: new Map(), replaced: false };
    this.#rejections.push(fresh);
    return fresh;
  }
}
