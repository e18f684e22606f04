import type { KeyRing } from '../../src/keys/key-source.ts';
import type { KeyKind } from '../../src/oauth1/methods.ts';
import { CanaryRule, type Excuse } from './canary-rule.ts';
import type { Conditions } from './conditions.ts';
import {
  accept,
  factsOf,
  isClear,
  type KindFacts,
  keyKinds,
  longestSignature,
  never,
  newFacts,
  occasion,
  viewOf,
} from './facts.ts';
import type { End, Upstream } from './instance.ts';
import { isPayment, kindOf, type OperationName } from './schedule.ts';
import { SwitchCosts } from './switch-costs.ts';
import { type Gateway, type Judged, nameOf } from './world.ts';

/** Milliseconds, as environments.*.timeouts.request: a slow gateway leaves no time for a retry. */
const requestTimeout = 30_000;

/**
 * Milliseconds for a login whose keys are not cached: a missing key is cached (keys.cache.negativeTtl), and an
 * in-flight read that began during an outage must end.
 */
const otherSteps: ReadonlyMap<End, number> = new Map([
  ['key-missing', 10_000],
  ['key-source-unavailable', 5_000],
]);

export interface Sent extends Upstream {
  readonly sentAt: number;
  /** Whether it is not the first attempt of the caller's request. */
  readonly isRetry: boolean;
}

/**
 * Observes one instance and reports violations of the rules of key selection (docs/adr/0003-key-selection.md) and of
 * the limits on what a rotation may cost. Unlike the instance, it knows which keys the gateway accepts.
 */
export class Observer {
  readonly violations: string[] = [];
  /** The rule about canaries. */
  readonly canaryRule: CanaryRule;
  readonly #conditions: Conditions;
  readonly #costs: SwitchCosts;
  readonly #facts = newFacts();
  /** The keys that an in-flight request was sent with. */
  readonly #keysOf = new Map<number, Set<string>>();
  #rereadAt = Number.NEGATIVE_INFINITY;

  constructor(conditions: Conditions, gateway: Gateway) {
    const report = (violation: string): void => this.#violation(violation);
    this.#conditions = conditions;
    this.#costs = new SwitchCosts(gateway, report);
    this.canaryRule = new CanaryRule((kind) => viewOf(this.#facts[kind]), report);
  }

  ringChanged(ring: KeyRing | undefined, now: number): void {
    // Without keys nothing is sent. The facts stay for when the keys are back.
    if (ring === undefined) return;
    for (const kind of keyKinds) {
      const facts = this.#facts[kind];
      const names = ring.flatMap((one) => (one.kind === kind && 'key' in one ? [nameOf(one.key)] : []));
      const distinct = [...new Set(names)];
      if (String(distinct) === String(facts.ring)) continue;
      facts.ring = distinct;
      facts.ringAt = now;
      facts.isAmbiguous = false;
      facts.signs.clear();
      facts.rejectedWith.clear();
      facts.contradicted.clear();
      // A key that is removed from Vault loses its history.
      for (const key of facts.keys.keys()) if (!distinct.includes(key)) facts.keys.delete(key);
      if (facts.accepted !== undefined && !distinct.includes(facts.accepted.key))
        accept(facts, undefined, now);
      this.#costs.ringChanged(kind, distinct.length);
      occasion(facts, now);
    }
  }

  /** @param kind of key of the request that causes it */
  reread(kind: KeyKind, now: number): void {
    if (now < this.#rereadAt + 1000)
      this.#violation(`Vault read past the cache again after ${now - this.#rereadAt} ms`);
    this.#rereadAt = now;
    this.#costs.read(kind, now);
  }

  sent({ request, key, operation, sentAt, isRetry }: Sent): void {
    const keys = this.#keysOf.get(request) ?? new Set();
    if (keys.has(key)) this.#violation(`${operation} sent twice with ${key}`);
    this.#keysOf.set(request, keys.add(key));
    if (isPayment(operation)) this.canaryRule.sent(request, sentAt);
    const facts = this.#facts[kindOf[operation]];
    if (isPayment(operation) && sentAt - facts.ringAt > longestSignature)
      this.#checkPayment(facts, key, operation);
    const known = factsOf(facts, key);
    // It may have been rejected while this request was signed.
    const isKnownGood =
      (known.acceptedAt !== never && !known.rejected.has(operation)) ||
      sentAt - known.rejectedAt <= longestSignature;
    if (!isRetry) return;
    const last = known.failedFallbacks.get(operation);
    // The key of a request that was being signed then had been selected before.
    const isOfBefore = last === undefined || last.at - facts.occasionAt <= longestSignature;
    const { count, at } = isOfBefore ? { count: 0, at: 0 } : last;
    if (isKnownGood && count === 0) return;
    this.#costs.trial(operation, sentAt);
    const step = count === 0 ? 0 : Math.min(30_000, 1000 * 2 ** (count - 1));
    if (!facts.isAmbiguous && sentAt < at + step - longestSignature) {
      this.#violation(`${key} tried again after ${sentAt - at} of ${step} ms`);
    }
    known.failedFallbacks.set(operation, { count: count + 1, at: sentAt });
  }

  /** The request timed out, which says nothing about the key. */
  timedOut({ key, operation }: Sent): void {
    factsOf(this.#facts[kindOf[operation]], key).failedFallbacks.delete(operation);
    this.#costs.overtaken(kindOf[operation]);
  }

  received({ key, operation, sentAt }: Sent, { status, aboutKey, skew }: Judged, now: number): void {
    const facts = this.#facts[kindOf[operation]];
    const known = factsOf(facts, key);
    known[status === 403 ? 'rejectedAt' : 'acceptedAt'] = now;
    const { latest } = facts;
    if (latest !== undefined && sentAt < latest.sentAt && (latest.status === 403) !== (status === 403)) {
      this.#costs.overtaken(kindOf[operation]);
    }
    if (sentAt >= (latest?.sentAt ?? sentAt)) facts.latest = { sentAt, status };
    if (status === 403) {
      const isSign = !known.rejected.has(operation) || !facts.signs.has(operation);
      if (facts.accepted?.key === key && isSign) {
        facts.signs.add(operation);
        occasion(facts, now);
        this.#costs.noticed(kindOf[operation], aboutKey);
      } else if (facts.isAmbiguous && facts.acceptedBefore.has(key)) {
        // Perhaps the last accepted key.
        occasion(facts, now);
      }
      known.rejected.set(operation, (known.rejected.get(operation) ?? false) || aboutKey);
      // Acceptances of other operations had contradicted the 403s before: only this one is a sign of a switch.
      const isFirst = !facts.rejections.has(operation) && !facts.contradicted.has(operation);
      if (facts.wasContradicted && isFirst) {
        facts.wasContradicted = false;
        this.#costs.overtaken(kindOf[operation]);
      }
      const rejectedWith = facts.rejectedWith.get(operation) ?? new Set();
      if (skew === 0) facts.rejectedWith.set(operation, rejectedWith.add(key));
      const first = facts.rejections.get(operation)?.first ?? now;
      facts.rejections.set(operation, { first, last: now });
      return;
    }
    if (sentAt > (facts.rejections.get(operation)?.last ?? never)) facts.rejections.delete(operation);
    facts.rejectedWith.delete(operation);
    // Even if it is the response to an old request.
    facts.signs.delete(operation);
    facts.enabled.add(operation);
    for (const other of known.rejected.keys()) if (!facts.enabled.has(other)) facts.notEnabled.add(other);
    facts.notEnabled.delete(operation);
    for (const other of known.rejected.keys()) if (facts.enabled.has(other)) facts.contradicted.add(other);
    facts.contradicted.delete(operation);
    if (known.rejected.size > 0) facts.wasContradicted = true;
    known.rejected.clear();
    known.provenAt = Math.max(known.provenAt, sentAt);
    known.failedFallbacks.clear();
    if (sentAt < (facts.accepted?.sentAt ?? sentAt)) return;
    accept(facts, { key, sentAt }, now, sentAt < known.rejectedAt);
  }

  /** The gateway rejected a payment because of its key. */
  paymentRejected(request: number, operation: OperationName, judged: Judged): Excuse | undefined {
    const query = kindOf[operation] === 'control_key' ? 'manager-balance' : 'order-status';
    return this.canaryRule.rejected(request, {
      ...judged,
      queryAcceptedSince: this.#conditions.operableSince(query),
    });
  }

  ended(request: number, operation: OperationName, end: End, startedAt: number, now: number): void {
    this.#keysOf.delete(request);
    if (isPayment(operation) || end === 200 || now - startedAt >= requestTimeout) return;
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
    const saysNothing = (by: OperationName): boolean =>
      facts.notEnabled.has(by) || facts.ring.every((one) => facts.rejectedWith.get(by)?.has(one));
    const wasRejected = [...factsOf(facts, key).rejected].some(
      ([by, aboutKey]) => aboutKey && !saysNothing(by),
    );
    const others = facts.ring.filter((one) => one !== key && isClear(factsOf(facts, one)));
    if (wasRejected && others.length > 0) {
      this.#violation(
        `${operation} signed with ${key} after a 403 for it; ${others.join(', ')} was not rejected`,
      );
    }
    // One that had left the ring and came back may be known as accepted or not.
    const accepted = facts.acceptedAfterRemoval ? undefined : facts.accepted?.key;
    if (accepted === undefined || accepted === key || !facts.ring.includes(accepted)) return;
    const isAsGood = factsOf(facts, key).provenAt >= (facts.accepted?.sentAt ?? 0) - longestSignature;
    if (!isAsGood && isClear(factsOf(facts, accepted)))
      this.#violation(`${operation} signed with ${key}; ${accepted} was accepted last`);
  }

  #violation(text: string): void {
    this.violations.push(text);
  }
}
