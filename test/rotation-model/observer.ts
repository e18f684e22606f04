import type { KeyRing } from '../../src/keys/ring.ts';
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
  resetProbes,
  viewOf,
} from './facts.ts';
import type { End, Upstream } from './instance.ts';
import { isPayment, kindOf, type OperationName } from './schedule.ts';
import { longestPause, SourceRule } from './source-rule.ts';
import { SwitchCosts } from './switch-costs.ts';
import { type Gateway, type Judged, nameOf } from './world.ts';

/** Milliseconds, as environments.*.timeouts.request: a slow gateway leaves no time for a retry. */
const requestTimeout = 30_000;
/** Milliseconds until reads succeed after Vault has the key that the gateway accepts, or is available again. */
const sourceStep = 2_000;
/** Milliseconds after which keys that the gateway never accepted may be looked at rarely. */
const hopelessAfter = 300_000;
/** Milliseconds without an acceptance after which 403s that acceptances contradicted may be about the key. */
const doubtAfter = 1_000;
/** Milliseconds, as keys.vault.timeout. */
const sourceTimeout = 5_000;
/** Milliseconds that a request waits for a source that is known to fail. */
const longestWait = 1_000;
/** Milliseconds of a fast gateway's responses to all attempts of another request, and of signatures. */
const trialTime = 300;
/** Milliseconds of a read that is not slow. */
const fastRead = 5;
/** Looks per second at all logins together. */
const looksPerSecond = 30;

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

/** A request that ended. */
interface EndedRequest {
  readonly id: number;
  readonly operation: OperationName;
  readonly end: End;
  readonly startedAt: number;
}

/** The attempts of an in-flight request. */
interface Attempts {
  readonly keys: Set<string>;
  sentAt: number;
  /** Milliseconds at the gateway. */
  upstream: number;
}

/**
 * Observes one instance and reports violations of the rules of key selection (docs/adr/0009-one-current-key.md) and of
 * the limits on what a rotation may cost. Unlike the instance, it knows which keys the gateway accepts.
 */
export class Observer {
  readonly violations: string[] = [];
  /** The rule about canaries. */
  readonly canaryRule: CanaryRule;
  /** The rules about the cached keys when the source has other ones, or none. */
  readonly sourceRule: SourceRule;
  readonly #conditions: Conditions;
  readonly #costs: SwitchCosts;
  readonly #facts = newFacts();
  readonly #attempts = new Map<number, Attempts>();
  /** Of the environment. */
  readonly #logins: number;
  readonly #ttl: number;
  readonly #gateway: Gateway;
  #rereadAt = Number.NEGATIVE_INFINITY;
  /** When each step last began anew. */
  #lookedAgainAt = never;
  /** Since when the instance has reported that the source fails. */
  #failingSince = Number.POSITIVE_INFINITY;
  /** Since when the instance has had keys without a pause. */
  #hasKeysSince = Number.POSITIVE_INFINITY;

  /** @param ttl `keys.cache.ttl`, milliseconds */
  constructor(conditions: Conditions, gateway: Gateway, { logins = 1, ttl = 60_000 } = {}) {
    const report = (violation: string): void => this.#violation(violation);
    this.#conditions = conditions;
    this.#logins = logins;
    this.#ttl = ttl;
    this.#gateway = gateway;
    this.#costs = new SwitchCosts(gateway, report);
    this.sourceRule = new SourceRule(conditions, ttl, report);
    this.canaryRule = new CanaryRule((kind) => viewOf(this.#facts[kind]), report);
  }

  ringChanged(ring: KeyRing | undefined, now: number): void {
    const allNames = ring?.flatMap((one) => ('key' in one ? [nameOf(one.key)] : []));
    this.sourceRule.ringChanged(allNames, now);
    // Without keys nothing is sent. The facts stay for when the keys are back.
    this.#hasKeysSince = ring === undefined ? Number.POSITIVE_INFINITY : Math.min(this.#hasKeysSince, now);
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
      resetProbes(facts, now);
      // A key that is removed from Vault loses its history.
      for (const [key, known] of facts.keys) {
        if (distinct.includes(key)) continue;
        if (!isClear(known)) facts.leftRejected.add(key);
        facts.keys.delete(key);
      }
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
    if (!this.#isInDoubt(this.#facts[kind], now)) this.#costs.read(kind, now);
  }

  sourceReported(up: boolean, now: number): void {
    this.#failingSince = up ? Number.POSITIVE_INFINITY : Math.min(this.#failingSince, now);
  }

  /** The source is back, or the configuration was reloaded: each step begins anew. */
  lookedAgain(now: number): void {
    this.#lookedAgainAt = now;
    this.#rereadAt = never;
    for (const kind of keyKinds) {
      const facts = this.#facts[kind];
      resetProbes(facts, now);
      occasion(facts, now);
      this.#costs.overtaken(kind);
    }
  }

  /**
   * Whether 403s speak against a key: then a look per second may find another one. Acceptances of other requests speak
   * for it, if they are recent.
   */
  #isInDoubt({ rejections, contradicted, keys }: KindFacts, now: number): boolean {
    const acceptedAt = Math.max(...[...keys.values()].map((one) => one.acceptedAt));
    return [...rejections.keys()].some((by) => !contradicted.has(by) || now - acceptedAt > doubtAfter);
  }

  sent({ request, key, operation, sentAt, isRetry }: Sent): void {
    const { keys, upstream } = this.#attempts.get(request) ?? { keys: new Set<string>(), upstream: 0 };
    if (keys.has(key)) this.#violation(`${operation} sent twice with ${key}`);
    this.#attempts.set(request, { keys: keys.add(key), sentAt, upstream });
    if (isPayment(operation)) this.canaryRule.sent(request, sentAt);
    this.sourceRule.sent(request, key, sentAt);
    const facts = this.#facts[kindOf[operation]];
    if (isPayment(operation) && sentAt - facts.ringAt > longestSignature)
      this.#checkPayment(facts, key, operation, sentAt);
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
    // Requests at once need no trial for a key that the gateway accepts, as far as 403s without clock skew say.
    const isAtOnce = facts.accepted?.key === key && known.rejectedAt < at;
    const isExpected = isAtOnce && !known.rejectedWithoutSkew.has(operation);
    if (!facts.isAmbiguous && !isExpected && sentAt < at + step - longestSignature) {
      this.#violation(`${key} tried again after ${sentAt - at} of ${step} ms`);
    }
    known.failedFallbacks.set(operation, { count: count + 1, at: sentAt });
  }

  /** The request timed out, which says nothing about the key. */
  timedOut({ request, key, operation, timeout }: Sent): void {
    this.#responded(request, timeout);
    factsOf(this.#facts[kindOf[operation]], key).failedFallbacks.delete(operation);
    this.#costs.overtaken(kindOf[operation]);
  }

  received({ request, key, operation, sentAt }: Sent, { status, aboutKey, skew }: Judged, now: number): void {
    this.#responded(request, now - sentAt);
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
      // Those in flight at the first one count once, and at a change of the ring not at all.
      if (isPayment(operation) && skew === 0 && sentAt > facts.ringAt) {
        const since = facts.rejectedPayments.get(key);
        if (since === undefined || sentAt > since) facts.rejectedPayments.set(key, now);
        if (since !== undefined && sentAt > since)
          facts.probes = { count: (facts.probes?.count ?? 0) + 1, at: now };
      }
      if (skew === 0) known.rejectedWithoutSkew.add(operation);
      // A key that has left the ring has no history.
      if (facts.ring.includes(key))
        known.rejected.set(operation, (known.rejected.get(operation) ?? false) || aboutKey);
      else facts.leftRejected.add(key);
      // Acceptances of other operations had contradicted the 403s before: only this one is a sign of a switch.
      const isFirst = !facts.rejections.has(operation) && !facts.contradicted.has(operation);
      if (facts.wasContradicted && isFirst) {
        facts.wasContradicted = false;
        this.#costs.overtaken(kindOf[operation]);
      }
      const rejectedWith = facts.rejectedWith.get(operation) ?? new Set();
      if (skew === 0 && !rejectedWith.has(key)) {
        facts.rejectedWith.set(operation, rejectedWith.add(key));
        facts.rejectedWithAt = now;
      }
      facts.rejectionTimes.push(now);
      const first = facts.rejections.get(operation)?.first ?? now;
      facts.rejections.set(operation, { first, last: now });
      return;
    }
    if (sentAt > (facts.rejections.get(operation)?.last ?? never)) facts.rejections.delete(operation);
    facts.rejectedWith.delete(operation);
    resetProbes(facts, now);
    // Even if it is the response to an old request.
    facts.signs.delete(operation);
    facts.enabled.add(operation);
    for (const other of known.rejected.keys()) if (!facts.enabled.has(other)) facts.notEnabled.add(other);
    facts.notEnabled.delete(operation);
    // Not one that was accepted with another key since: its 403s were about the key.
    for (const other of known.rejected.keys())
      if (facts.enabled.has(other) && facts.rejections.has(other)) facts.contradicted.add(other);
    facts.contradicted.delete(operation);
    if (known.rejected.size > 0) facts.wasContradicted = true;
    known.rejected.clear();
    known.rejectedWithoutSkew.clear();
    facts.leftRejected.delete(key);
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

  ended({ id, operation, end, startedAt }: EndedRequest, now: number): void {
    const { keys, upstream } = this.#attempts.get(id) ?? { keys: new Set(), upstream: 0 };
    this.#attempts.delete(id);
    if (now - startedAt > requestTimeout + trialTime)
      this.#violation(`${operation} took ${now - startedAt} ms, which is longer than its timeout`);
    this.sourceRule.ended(id, end, now);
    if (end === 'overloaded') this.#checkSlots(operation, startedAt);
    if (end === 'key-rejected' && keys.size > 0)
      this.#violation(`${operation} ended with ${end}, though it was sent`);
    this.#checkWait(operation, startedAt, now, upstream);
    if (end === 403 && !isPayment(operation) && this.sourceRule.mustSucceed(operation, startedAt))
      this.#violation(`${operation} ended with 403, though the gateway accepts a cached key`);
    const mustSucceed = isPayment(operation) ? end === 'key-rejected' : end !== 200;
    if (mustSucceed && now - startedAt < requestTimeout) this.#checkEnd(operation, end, startedAt);
  }

  #checkEnd(operation: OperationName, end: End, startedAt: number): void {
    const usable = this.#conditions.usable(operation);
    if (usable === undefined) return;
    // The probe of a slow gateway takes seconds, and responses overtake each other.
    if (isPayment(operation) && startedAt < this.#conditions.fastSince + requestTimeout) return;
    // The 403s of reads that are not enabled look as if every key was rejected.
    const clearSince = isPayment(operation) ? this.#conditions.allOperableSince(kindOf[operation]) : never;
    const { rejections, rejectionTimes, enabled, ring, ringAt } = this.#facts[kindOf[operation]];
    // A key that left Vault and came back between two reads was never gone.
    const isNew = ringAt >= usable.since || !ring.includes(usable.key);
    const bySource = usable.bySource && isNew && clearSince <= usable.since;
    const since = Math.max(0, usable.since, clearSince);
    const firstAt = Math.min(...[...rejections.values()].map(({ first }) => first));
    const rejectedSince = Math.min(since, firstAt);
    const isHopeless = enabled.size === 0 && startedAt - rejectedSince > hopelessAfter;
    const turns = Math.max(0, (this.#logins * 1_000) / looksPerSecond - 1_000);
    // A slow read may have begun before the change, and one after it is followed by one of the whole ring.
    const soon =
      sourceStep + turns + 3 * this.#conditions.slowestSince(since) + this.#unnoticed(since, rejectionTimes);
    const backoff = Math.min(30_000, since - rejectedSince + 1000);
    // Payments try one key per step, if there is one then.
    const rounds = isPayment(operation) ? (ring.length + 1) * 30_000 : backoff;
    // What the ring lacks must be read first: also after an outage that began when Vault already had it.
    const readable = isNew ? usable.readable : usable.stored;
    const bySteps = bySource && !isHopeless ? soon : Math.max(rounds, readable + soon - since);
    // What becomes readable beside the current version is found when the ring is read again.
    const byRing = usable.byCurrent ? 0 : this.#ttl + longestPause + soon;
    const fromReset = this.#lookedAgainAt - since;
    const step =
      otherSteps.get(end) ??
      Math.max(
        byRing,
        Math.min(bySteps, fromReset >= 0 && !isPayment(operation) ? fromReset + soon : bySteps),
      );
    if (startedAt >= since + step) {
      this.#violation(
        `${operation} ended with ${end}; a key was usable for ${startedAt - since} ms, the step is ${step}`,
      );
    }
  }

  /** Milliseconds during which no request showed a slow source that another key is needed. */
  #unnoticed(since: number, rejectionTimes: readonly number[]): number {
    const isSlow = this.#conditions.slowestSince(since) > fastRead;
    return isSlow ? (rejectionTimes.find((at) => at >= since) ?? since) - since : 0;
  }

  /** Requests that wait for the keys of a login may not take the slots of others. */
  #checkSlots(operation: OperationName, startedAt: number): void {
    const { accepted, rejections } = this.#facts[kindOf[operation]];
    const { fastSince } = this.#conditions;
    if (accepted === undefined || rejections.size > 0 || startedAt < this.#hasKeysSince) return;
    const isAccepted = this.#gateway.accepted(kindOf[operation]).includes(accepted.key);
    if (isAccepted && startedAt >= fastSince + requestTimeout)
      this.#violation(`${operation} ended with overloaded, though the gateway accepts its key`);
  }

  /** A request with cached keys does not wait for a source that is known to fail. */
  #checkWait(operation: OperationName, startedAt: number, now: number, upstream: number): void {
    // A read of the source that began before the first one failed ends with its timeout.
    const knownSince = this.#failingSince + sourceTimeout;
    if (isPayment(operation) || startedAt < Math.max(knownSince, this.#hasKeysSince)) return;
    // After a reload, each request may look again.
    if (startedAt < Math.max(this.#conditions.fastSince + requestTimeout, this.#lookedAgainAt)) return;
    const waited = now - startedAt - upstream;
    if (waited > longestWait + trialTime)
      this.#violation(`${operation} waited ${waited} ms while the source failed`);
  }

  #responded(request: number, milliseconds: number): void {
    const attempts = this.#attempts.get(request);
    if (attempts !== undefined) attempts.upstream += milliseconds;
  }

  /** Whether the gateway rejected every key, for this operation or one that it accepted before. */
  #rejectsAll(facts: KindFacts, operation: OperationName): boolean {
    return [...facts.rejectedWith].some(
      ([by, keys]) =>
        (by === operation || facts.enabled.has(by)) &&
        !facts.contradicted.has(by) &&
        !facts.notEnabled.has(by) &&
        facts.ring.every((key) => keys.has(key) && factsOf(facts, key).rejected.has(by)),
    );
  }

  /** While every key is rejected, one payment per step of the back-off is sent. */
  #probe(facts: KindFacts, key: string, operation: OperationName, sentAt: number): void {
    // One that was being signed then had been selected before. Responses that overtake each other say both.
    const isFast = sentAt >= this.#conditions.fastSince + requestTimeout;
    const isOrdered = isFast && !facts.isAmbiguous && this.#gateway.agrees(kindOf[operation]);
    if (!isOrdered || sentAt - facts.rejectedPaymentsSince <= longestSignature) return;
    if (facts.probes === undefined || !facts.rejectedPayments.has(key)) return;
    const { count, at } = facts.probes;
    if (sentAt - at <= longestSignature) return;
    const step = Math.min(30_000, 1_000 * 2 ** count);
    if (sentAt < at + step - longestSignature) {
      this.#violation(
        `${operation} signed with ${key}, though every key is rejected; the last one was ${sentAt - at} of ${step} ms before`,
      );
    }
  }

  #checkPayment(facts: KindFacts, key: string, operation: OperationName, sentAt: number): void {
    const saysNothing = (by: OperationName): boolean =>
      facts.notEnabled.has(by) || facts.ring.every((one) => facts.rejectedWith.get(by)?.has(one));
    const wasRejected = [...factsOf(facts, key).rejected].some(
      ([by, aboutKey]) => aboutKey && !saysNothing(by),
    );
    const isUnrejected = (one: string): boolean =>
      isClear(factsOf(facts, one)) && !facts.leftRejected.has(one);
    const others = facts.ring.filter((one) => one !== key && isUnrejected(one));
    if (wasRejected && others.length > 0) {
      this.#violation(
        `${operation} signed with ${key} after a 403 for it; ${others.join(', ')} was not rejected`,
      );
    }
    if (sentAt - facts.rejectedWithAt > longestSignature && this.#rejectsAll(facts, operation))
      this.#probe(facts, key, operation, sentAt);
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
