import { Backoff } from '../util/backoff.ts';
import { HeldBackPayments } from './held-back-payments.ts';
import { sameKey } from './key.ts';
import type { UsableKey } from './ring.ts';

/** The distinct usable keys of one login and kind, newest first; see ring.ts. */
export type UsableKeys = readonly [UsableKey, ...UsableKey[]];

/** Use of a key for an upstream request, whose response says something about the key. */
export interface KeyUse {
  readonly key: UsableKey;
  /** Name of the operation. One that is not enabled for the login is rejected with every key. */
  readonly operation: string;
  /** Monotonic, milliseconds; not later than the first byte sent. */
  readonly sentAt: number;
}

/** A {@link KeyUse} that is updated with each attempt. */
export type MutableUse = { -readonly [Field in keyof KeyUse]: KeyUse[Field] };

/** Whether a request may be signed and sent again after a 403. */
export type RetryPolicy = 'retryable' | 'single-attempt';

/**
 * Why a key signs: the login has no other one (`only-key`), the gateway accepted it last (`last-accepted`), nothing
 * speaks against the newest (`newest`), the gateway rejected every newer one (`newer-rejected`), or it rejected all of
 * them (`none-accepted`).
 */
export type SelectionReason = 'only-key' | 'last-accepted' | 'newest' | 'newer-rejected' | 'none-accepted';

/** Milliseconds until a rejected key is tried again. */
const retrySteps = { initial: 1_000, max: 30_000 };
/** Milliseconds without an acceptance after which the 403s of an operation may be about the key, though others were accepted. */
const doubtAfter = 1_000;
/** Milliseconds after which a login of which the gateway never accepted a key is looked at rarely. */
const hopelessAfter = 300_000;

/** When an operation was first and last rejected; monotonic, milliseconds. */
interface Span {
  readonly first: number;
  readonly last: number;
  /** Of the first payment; empty for another request. */
  readonly place: string;
  /** Not by payments of one place only, whose 403s may be about these payments. */
  isSure: boolean;
}

/** A 403 for a key. */
export interface RejectedKey {
  readonly key: UsableKey;
  /** When it was received; monotonic, milliseconds. */
  readonly rejectedAt: number;
}

/** Rejections of one key since the gateway last accepted it. */
interface Rejections {
  readonly key: UsableKey;
  readonly byOperation: Map<string, Span>;
  /** When a single-attempt request was last rejected; monotonic, milliseconds. */
  lastSingleAttempt: number;
  /** By operation: when the key may be tried as a fallback again. */
  readonly steps: Backoff;
  /** By caller and path: when the last 403 of a payment was received; monotonic, milliseconds. */
  readonly places: Map<string, number>;
  /** Whether the fallback from this key to another one was counted. */
  replaced: boolean;
}

/**
 * Which keys of one login and kind the gateway accepted and rejected, and which key to use next.
 *
 * Only an acceptance changes the preferred key. After a rejection, payments avoid the key until it is accepted
 * again, unless the rejection says nothing about the key: the operation is rejected with every key, or was never
 * accepted while others are.
 */
export class KeyHistory {
  readonly payments = new HeldBackPayments();
  #keys: readonly UsableKey[] = [];
  #lastAccepted: KeyUse | undefined;
  /** Of each key, the accepted request that was sent last, whatever rejects the key now. */
  #acceptances: readonly KeyUse[] = [];
  /** Whether {@link #lastAccepted} has not been rejected since. */
  #accepting = false;
  /** When the last accepted request was sent. */
  #acceptedAt = Number.NEGATIVE_INFINITY;
  #rejections: Rejections[] = [];
  /** Since when the gateway has only rejected these keys; monotonic, milliseconds. */
  #rejectingSince: number | undefined;
  /** When a request of each operation was last accepted; absent for operations that never were. */
  readonly #enabled = new Map<string, number>();
  /** Operations whose rejections say nothing about a key. */
  readonly #rejectedWithAnyKey = new Set<string>();
  /** Operations rejected with a key that others were then accepted with: no sign of a rotation. */
  readonly #contradicted = new Set<string>();

  /** Updates the keys. A change makes each of them a candidate again and forgets removed ones. */
  observe(keys: UsableKeys): void {
    const known = this.#keys;
    this.#keys = keys;
    if (keys.length === known.length && keys.every((key, index) => isSame(key, known[index]))) return;
    this.#rejections = this.#rejections.filter(({ key }) => includes(keys, key));
    if (this.acceptedAmong(keys) === undefined) this.#lastAccepted = undefined;
    this.#acceptances = this.#acceptances.filter(({ key }) => includes(keys, key));
    this.#rejectedWithAnyKey.clear();
    this.#contradicted.clear();
    this.#rejectingSince = undefined;
    this.resetSteps();
  }

  /**
   * Retryable requests try the newest key first, unless it was rejected and another one accepted. Single-attempt
   * requests stay on the last accepted key; once that was rejected they use another one, so that no key can block
   * payments. A 403 for a payment moves only those of its place, since it may be about them; one of another place all.
   *
   * @param place of a payment: caller and path
   */
  select([newest, ...others]: UsableKeys, policy: RetryPolicy, place?: string): UsableKey {
    if (others.length === 0) return newest;
    const keys = [newest, ...others];
    const accepted = this.acceptedAmong(keys);
    if (policy === 'retryable') return this.#wasRejected(newest) ? (accepted ?? newest) : newest;
    const inOrder = [...new Set([accepted ?? newest, ...keys])];
    const unrejected = inOrder.find((key) => !this.isRejected(key, place));
    if (unrejected !== undefined) return unrejected;
    const rejectedAt = (key: UsableKey): number => this.#find(key)?.lastSingleAttempt ?? 0;
    return inOrder.toSorted((a, b) => rejectedAt(a) - rejectedAt(b))[0] ?? newest;
  }

  /**
   * Whether payments avoid the key: the gateway rejected it and has not accepted it since.
   *
   * @param place without one, a 403 is enough, whatever place it was for
   */
  isRejected(
    key: UsableKey,
    place?: string,
    unless: ReadonlySet<string> = this.#rejectedWithAnyKey,
  ): boolean {
    const rejections = this.#find(key);
    if (rejections === undefined) return false;
    const isOfPlace = place === undefined || rejections.places.has(place);
    return [...rejections.byOperation].some(
      ([operation, { isSure }]) => (isSure || isOfPlace) && !unless.has(operation),
    );
  }

  /** The same, also if each key was rejected, unless the gateway accepts other operations with this one. */
  isLastRejected(key: UsableKey): boolean {
    return this.isRejected(key) || this.isRejected(key, undefined, this.#contradicted);
  }

  /**
   * Whether a rejection calls for a look at once. Not if the gateway accepts the key for other operations, or has never
   * accepted a key of this login.
   */
  isUrgent(operation: string, now: number): boolean {
    if (this.#contradicted.has(operation)) return now - this.#acceptedAt > doubtAfter;
    return this.#enabled.size > 0 || now - (this.#rejectingSince ?? now) <= hopelessAfter;
  }

  /** Whether a payment of this place was rejected with the key since the last acceptance. */
  hasRejectedPayment(key: UsableKey, place: string): boolean {
    return this.#find(key)?.places.has(this.payments.nameOf(place)) ?? false;
  }

  /**
   * A payment was rejected; see {@link HeldBackPayments}. Another 403 counts only of a payment sent since the first.
   */
  recordRejectedPayment({ key, sentAt }: KeyUse, place: string, now: number): void {
    const name = this.payments.nameOf(place);
    const { places } = ofKey(this.#rejections, key);
    const since = places.get(name);
    if (since !== undefined && sentAt <= since) return;
    places.set(name, now);
    this.payments.recordRejected(name, since !== undefined, now);
  }

  /**
   * Whether a payment of this place should use another key now.
   *
   * @param isProbe sent although the key is rejected: only a key that is not is better
   */
  isOutdated(key: UsableKey, place: string, isProbe = false): boolean {
    const [newest, ...others] = this.#keys;
    if (newest === undefined || !includes(this.#keys, key)) return true;
    const best = this.select([newest, ...others], 'single-attempt', place);
    if (isProbe) return !this.isRejected(best, place);
    return !sameKey(key, best) || this.hasRejectedPayment(key, place);
  }

  /** Why the key is the one to sign with now, for the log. */
  reasonFor(key: UsableKey): SelectionReason {
    if (this.#keys.length < 2) return 'only-key';
    if (this.isLastAccepted(key)) return 'last-accepted';
    if (this.isRejected(key)) return 'none-accepted';
    return isSame(key, this.#keys[0]) ? 'newest' : 'newer-rejected';
  }

  /** The key that the gateway accepted last, if it is one of these. */
  acceptedAmong(keys: readonly UsableKey[]): UsableKey | undefined {
    return keys.find((key) => this.isLastAccepted(key));
  }

  isLastAccepted(key: UsableKey): boolean {
    return isSame(key, this.#lastAccepted?.key);
  }

  /** Whether payments avoid their preferred key. A trial in flight may then find a better one. */
  isInDoubt(place?: string): boolean {
    const preferred = this.acceptedAmong(this.#keys) ?? this.#keys[0];
    return preferred !== undefined && this.isRejected(preferred, place);
  }

  /** Whether there is a newer key than the last accepted one, which the gateway may be about to drop. */
  isAwaitingNewest(): boolean {
    const [newest, ...others] = this.#keys;
    return newest !== undefined && others.length > 0 && !this.isLastAccepted(newest);
  }

  /** The fallback to use without a trial: the key that the gateway currently accepts. */
  acceptedInstead(operation: string, tried: readonly UsableKey[]): UsableKey | undefined {
    const key = this.#lastAccepted?.key;
    if (key === undefined || !this.#accepting || includes(tried, key)) return undefined;
    const isRejected = this.#wasRejectedBy(key, operation);
    if (isRejected || this.#rejectedWithAnyKey.has(operation) || !this.#enabled.has(operation))
      return undefined;
    return includes(this.#keys, key) ? key : undefined;
  }

  /**
   * The next fallback to try: the last accepted key, then the newest that is due.
   *
   * @param now monotonic, milliseconds
   */
  nextCandidate(operation: string, tried: readonly UsableKey[], now: number): UsableKey | undefined {
    const isDue = (key: UsableKey): boolean => this.#find(key)?.steps.isDue(now, operation) ?? true;
    const due = this.#keys.filter((key) => !includes(tried, key) && isDue(key));
    return this.acceptedAmong(due) ?? due[0];
  }

  /**
   * A key was tried as a fallback and not accepted: it backs off, from when it was sent. A change that happens during a
   * slow attempt is still found one step after the change.
   */
  recordFailedFallback({ key, operation, sentAt }: KeyUse, now: number): void {
    ofKey(this.#rejections, key).steps.recordFailure(now, { beganAt: sentAt }, operation);
  }

  /** Responses may overtake each other: one to an earlier request does not change the preferred key. */
  recordAccepted(use: KeyUse): void {
    const { key, operation, sentAt } = use;
    this.#enabled.set(operation, sentAt);
    this.#rejectedWithAnyKey.delete(operation);
    this.#rejectingSince = undefined;
    this.#acceptedAt = Math.max(this.#acceptedAt, sentAt);
    if (!this.payments.isEmpty) this.payments.recordAccepted();
    const rejections = this.#find(key);
    for (const one of this.#rejections) {
      one.places.clear();
      if (one === rejections) continue;
      // It is another key that is accepted, so these were about the key.
      for (const span of one.byOperation.values()) span.isSure = true;
    }
    if (rejections !== undefined) this.#clear(rejections, sentAt);
    this.#contradicted.delete(operation);
    this.#acceptances = withLatest(this.#acceptances, use);
    if (this.#wasRejected(key)) return;
    this.#rejections = this.#rejections.filter((one) => one !== rejections);
    if (sentAt < (this.#lastAccepted?.sentAt ?? sentAt)) return;
    this.#lastAccepted = use;
    this.#accepting = true;
  }

  /**
   * @param now when the response was received; monotonic, milliseconds
   * @param policy of the rejected request
   * @param aboutKey `false` if the response has another cause
   * @param place of a payment
   */
  recordRejected(use: KeyUse, now: number, policy: RetryPolicy, aboutKey: boolean, place = ''): void {
    const { key, operation } = use;
    const isDenied = this.#rejectedWithAnyKey.has(operation);
    const isSign = !isDenied && !this.#contradicted.has(operation);
    if (isSign && this.#accepting && this.isLastAccepted(key)) {
      this.#accepting = false;
      for (const { steps } of this.#rejections) steps.reset();
    }
    if (aboutKey) this.#rejectingSince ??= now;
    const isNews = !isDenied || (this.#enabled.has(operation) && !this.#wasRejectedBy(key, operation));
    if (aboutKey && isNews) this.#addRejection(use, now, policy, place);
  }

  /**
   * Another key was accepted instead of these, which proves that their rejections were about the key.
   *
   * @returns whether this is the first fallback from the first of them
   */
  recordReplaced(others: readonly [RejectedKey, ...RejectedKey[]], operation: string): boolean {
    for (const { key, rejectedAt } of others) {
      const isKnown = this.#wasRejectedBy(key, operation);
      const isAcceptedSince = this.#acceptances.some(
        (one) => one.sentAt > rejectedAt && isSame(key, one.key),
      );
      if (!isKnown && !isAcceptedSince)
        this.#addRejection({ key, operation, sentAt: rejectedAt }, rejectedAt, 'retryable');
    }
    const rejections = ofKey(this.#rejections, others[0].key);
    const isFirst = !rejections.replaced;
    rejections.replaced = true;
    return isFirst;
  }

  /**
   * No key was accepted. If the operation was rejected with every key, its rejections say nothing about a key.
   *
   * @param since when the first of `rejected` was; monotonic, milliseconds
   */
  recordNoKeyAccepted(operation: string, rejected: readonly UsableKey[], since: number): void {
    if ((this.#enabled.get(operation) ?? since) > since) return;
    const isRejectedBy = (key: UsableKey): boolean =>
      includes(rejected, key) || this.#wasRejectedBy(key, operation);
    if (this.#keys.every(isRejectedBy)) this.#rejectedWithAnyKey.add(operation);
  }

  /** Removes the rejections that an acceptance of the key, sent at that time, proves outdated. */
  #clear({ byOperation }: Rejections, sentAt: number): void {
    for (const [operation, { first, last }] of byOperation) {
      const enabledAt = this.#enabled.get(operation);
      if (sentAt < (enabledAt === undefined ? first : last)) continue;
      byOperation.delete(operation);
      if (enabledAt === undefined) this.#rejectedWithAnyKey.add(operation);
      // One that was accepted with another key since was rejected because of the key, which is accepted again.
      else if (enabledAt <= last) this.#contradicted.add(operation);
    }
  }

  /** A key that left the ring has no history: it may come back. */
  #addRejection({ key, operation, sentAt }: KeyUse, now: number, policy: RetryPolicy, place = ''): void {
    if (!includes(this.#keys, key)) return;
    const rejections = ofKey(this.#rejections, key);
    const known = rejections.byOperation.get(operation);
    const isElsewhere = known !== undefined && sentAt > known.last && place !== known.place;
    const isSure = known?.isSure === true || isElsewhere || policy === 'retryable';
    const { first, place: of } = known ?? { first: now, place };
    rejections.byOperation.set(operation, { first, last: now, place: of, isSure });
    if (policy === 'single-attempt') rejections.lastSingleAttempt = now;
  }

  #wasRejectedBy(key: UsableKey, operation: string): boolean {
    return this.#find(key)?.byOperation.has(operation) ?? false;
  }

  #wasRejected(key: UsableKey): boolean {
    return (this.#find(key)?.byOperation.size ?? 0) > 0;
  }

  /** Each key may be tried again at once. */
  resetSteps(): void {
    for (const { steps } of this.#rejections) steps.reset();
    this.payments.resetSteps();
  }

  #find(key: UsableKey): Rejections | undefined {
    return this.#rejections.find((one) => sameKey(one.key, key));
  }
}

/** Those of the key, added if there are none yet. */
function ofKey(all: Rejections[], key: UsableKey): Rejections {
  const known = all.find((one) => sameKey(one.key, key));
  if (known !== undefined) return known;
  const fresh: Rejections = {
    key,
    byOperation: new Map(),
    lastSingleAttempt: 0,
    steps: new Backoff(retrySteps),
    places: new Map(),
    replaced: false,
  };
  all.push(fresh);
  return fresh;
}

/** As {@link sameKey}; `undefined` equals no key. Mostly it is the same object. */
function isSame(key: UsableKey, other: UsableKey | undefined): boolean {
  return other !== undefined && (key === other || sameKey(key, other));
}

function includes(keys: readonly UsableKey[], key: UsableKey): boolean {
  return keys.some((one) => isSame(one, key));
}

/** The uses with this one in place of another of its key that was sent before it. Responses may overtake each other. */
function withLatest<Use extends { readonly key: UsableKey; readonly sentAt: number }>(
  uses: readonly Use[],
  use: Use,
): readonly Use[] {
  const known = uses.find((one) => isSame(use.key, one.key));
  if (known !== undefined && known.sentAt > use.sentAt) return uses;
  return [...uses.filter((one) => one !== known), use];
}
