import type { KeyRing } from '../../src/keys/source.ts';
import type { KeyKind } from '../../src/oauth1/methods.ts';
import type { Conditions } from './conditions.ts';
import type { End, Upstream } from './instance.ts';
import { isPayment, kindOf, type OperationName } from './schedule.ts';
import { type Judged, nameOf } from './world.ts';

const never = Number.NEGATIVE_INFINITY;
/** Milliseconds from the choice of a key to the first byte. */
const longestSignature = 20;

/**
 * Milliseconds for a login whose keys are not held: a missing one is remembered (keys.cache), and a read in
 * flight that began during an outage has to end.
 */
const otherSteps: ReadonlyMap<End, number> = new Map([
  ['key-missing', 10_000],
  ['key-source-unavailable', 5_000],
]);

/** What one instance knows of one key. */
interface KeyFacts {
  /** 403s received since the last acceptance: by operation, whether one was about the key. */
  readonly rejected: Map<OperationName, boolean>;
  acceptedAt: number;
  /** When the last accepted request was sent. */
  provenAt: number;
  rejectedAt: number;
  /** Requests sent again with it in vain, one after the other: how many and when, by operation. */
  readonly fruitless: Map<OperationName, { readonly count: number; readonly at: number }>;
}

/** What one instance knows of one kind of key. */
interface KindFacts {
  keys: Map<string, KeyFacts>;
  ring: readonly string[];
  ringAt: number;
  accepted?: { readonly key: string; readonly sentAt: number };
  readonly enabled: Set<OperationName>;
  /** Never accepted, though a key was that they were rejected with: nobody can tell why they are rejected. */
  readonly notEnabled: Set<OperationName>;
  /** When every key could last be tried again. */
  occasionAt: number;
  /** By operation, the first and the last 403 since its last acceptance. */
  readonly rejections: Map<OperationName, { readonly first: number; readonly last: number }>;
}

export interface Sent extends Upstream {
  readonly sentAt: number;
  /** Whether it is not the first attempt of the caller's request. */
  readonly isRetry: boolean;
}

/**
 * Watches one instance from outside and notes what breaks a rule: README promise 6, and the bounds of what a
 * rotation may cost. It knows the truth about the gateway, which the instance does not.
 */
export class Observer {
  readonly violations: string[] = [];
  readonly #conditions: Conditions;
  readonly #facts = newFacts();
  #rereadAt = Number.NEGATIVE_INFINITY;

  constructor(conditions: Conditions) {
    this.#conditions = conditions;
  }

  ringChanged(ring: KeyRing | undefined, now: number): void {
    // Without keys nothing is sent; what is known stays for when they are back.
    if (ring === undefined) return;
    for (const [kind, facts] of Object.entries(this.#facts)) {
      const names = ring.flatMap((one) => (one.kind === kind && 'key' in one ? [nameOf(one.key)] : []));
      const distinct = [...new Set(names)];
      if (String(distinct) === String(facts.ring)) continue;
      facts.ring = distinct;
      facts.ringAt = now;
      // A key that is taken out of Vault is forgotten, and has to show again what it is good for.
      for (const key of facts.keys.keys()) if (!distinct.includes(key)) facts.keys.delete(key);
      if (facts.accepted !== undefined && !distinct.includes(facts.accepted.key)) delete facts.accepted;
      occasion(facts, now);
    }
  }

  reread(now: number): void {
    if (now < this.#rereadAt + 1000)
      this.#violation(`Vault read past the cache again after ${now - this.#rereadAt} ms`);
    this.#rereadAt = now;
  }

  sent({ key, operation, sentAt, isRetry }: Sent): void {
    const facts = this.#facts[kindOf[operation]];
    if (isPayment(operation) && sentAt - facts.ringAt > longestSignature)
      this.#checkPayment(facts, key, operation);
    const known = factsOf(facts, key);
    // It may have been rejected while this request was signed.
    const isKnownGood =
      (known.acceptedAt !== never && !known.rejected.has(operation)) ||
      sentAt - known.rejectedAt <= longestSignature;
    if (!isRetry) return;
    const last = known.fruitless.get(operation);
    // What was signed when an occasion came had been chosen before it.
    const isOfBefore = last === undefined || last.at - facts.occasionAt <= longestSignature;
    const { count, at } = isOfBefore ? { count: 0, at: 0 } : last;
    if (isKnownGood && count === 0) return;
    const step = count === 0 ? 0 : Math.min(30_000, 1000 * 2 ** (count - 1));
    if (sentAt < at + step - longestSignature) {
      this.#violation(`${key} tried again after ${sentAt - at} of ${step} ms`);
    }
    known.fruitless.set(operation, { count: count + 1, at: sentAt });
  }

  received({ key, operation, sentAt }: Sent, { status, aboutKey }: Judged, now: number): void {
    const facts = this.#facts[kindOf[operation]];
    const known = factsOf(facts, key);
    known[status === 403 ? 'rejectedAt' : 'acceptedAt'] = now;
    if (status === 403) {
      if (facts.accepted?.key === key && !known.rejected.has(operation)) occasion(facts, now);
      known.rejected.set(operation, (known.rejected.get(operation) ?? false) || aboutKey);
      const first = facts.rejections.get(operation)?.first ?? now;
      facts.rejections.set(operation, { first, last: now });
      return;
    }
    if (sentAt > (facts.rejections.get(operation)?.last ?? never)) facts.rejections.delete(operation);
    facts.enabled.add(operation);
    for (const other of known.rejected.keys()) if (!facts.enabled.has(other)) facts.notEnabled.add(other);
    facts.notEnabled.delete(operation);
    known.rejected.clear();
    known.provenAt = Math.max(known.provenAt, sentAt);
    known.fruitless.clear();
    if (sentAt < (facts.accepted?.sentAt ?? sentAt)) return;
    facts.accepted = { key, sentAt };
  }

  ended(operation: OperationName, end: End, startedAt: number): void {
    if (isPayment(operation) || end === 200) return;
    const since = this.#conditions.since(operation);
    if (since === undefined) return;
    const { rejections } = this.#facts[kindOf[operation]];
    const storm = since - Math.min(since, ...[...rejections.values()].map(({ first }) => first));
    const step = otherSteps.get(end) ?? Math.min(30_000, storm + 1000);
    if (startedAt >= since + step) {
      this.#violation(
        `${operation} ended with ${end}; a key was usable for ${startedAt - since} ms, the step is ${step}`,
      );
    }
  }

  #checkPayment(facts: KindFacts, key: string, operation: OperationName): void {
    const wasRejected = [...factsOf(facts, key).rejected].some(
      ([by, aboutKey]) => aboutKey && !facts.notEnabled.has(by),
    );
    const others = facts.ring.filter((one) => one !== key && isClear(factsOf(facts, one)));
    if (wasRejected && others.length > 0) {
      this.#violation(
        `${operation} signed with ${key} after a 403 for it; ${others.join(', ')} was not rejected`,
      );
    }
    const accepted = facts.accepted?.key;
    if (accepted === undefined || accepted === key || !facts.ring.includes(accepted)) return;
    const isAsGood = factsOf(facts, key).provenAt >= (facts.accepted?.sentAt ?? 0) - longestSignature;
    if (!isAsGood && isClear(factsOf(facts, accepted)))
      this.#violation(`${operation} signed with ${key}; ${accepted} was accepted last`);
  }

  #violation(text: string): void {
    this.violations.push(text);
  }
}

function newFacts(): Record<KeyKind, KindFacts> {
  const fresh = (): KindFacts => ({
    keys: new Map(),
    ring: [],
    ringAt: never,
    enabled: new Set(),
    notEnabled: new Set(),
    occasionAt: never,
    rejections: new Map(),
  });
  return { control_key: fresh(), private_key: fresh() };
}

function factsOf({ keys }: KindFacts, key: string): KeyFacts {
  const known = keys.get(key) ?? newKeyFacts();
  keys.set(key, known);
  return known;
}

/** Whether nothing stands against the key. An acceptance that was overtaken by a 403 proves nothing. */
function isClear({ provenAt, rejectedAt }: KeyFacts): boolean {
  return provenAt - longestSignature > rejectedAt || rejectedAt === never;
}

function newKeyFacts(): KeyFacts {
  return { rejected: new Map(), acceptedAt: never, provenAt: never, rejectedAt: never, fruitless: new Map() };
}

/** Every key may be tried again. */
function occasion(facts: KindFacts, now: number): void {
  facts.occasionAt = now;
  for (const known of facts.keys.values()) known.fruitless.clear();
}
