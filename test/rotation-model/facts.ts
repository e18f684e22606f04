import type { KeyKind } from '../../src/oauth1/methods.ts';
import type { KeyView } from './canary-rule.ts';
import type { OperationName } from './schedule.ts';

export const never = Number.NEGATIVE_INFINITY;
/** Milliseconds from the choice of a key to the first byte. */
export const longestSignature = 20;

/** What one instance knows about one key. */
interface KeyFacts {
  /** 403s received since the last acceptance: by operation, whether one was about the key. */
  readonly rejected: Map<OperationName, boolean>;
  /** Those of them with a 403 that had not the cause `clock-skew`, which says nothing about a key. */
  readonly rejectedWithoutSkew: Set<OperationName>;
  acceptedAt: number;
  /** When the last accepted request was sent. */
  provenAt: number;
  rejectedAt: number;
  /** Consecutive failed fallbacks to it by operation: how many and when. */
  readonly failedFallbacks: Map<OperationName, { readonly count: number; readonly at: number }>;
}

/** What one instance knows about one kind of key. */
export interface KindFacts {
  keys: Map<string, KeyFacts>;
  /** Those that left the ring after a 403: without a request before they are back, that goes unnoticed. */
  readonly leftRejected: Set<string>;
  ring: readonly string[];
  ringAt: number;
  accepted?: { readonly key: string; readonly sentAt: number };
  /** Since when that is the key, without doubt. */
  acceptedSince: number;
  /** Whether it had left the ring by then. The instance may notice that before or after the response. */
  acceptedAfterRemoval: boolean;
  /**
   * The last accepted key, even if it was removed from Vault meanwhile: without a request, that goes unnoticed. Several
   * if the last acceptances are ambiguous.
   */
  readonly acceptedBefore: Set<string>;
  /** The response to the request that was sent last. */
  latest?: { readonly sentAt: number; readonly status: number };
  /** Operations rejected with the last accepted key, since the ring changed. */
  readonly signs: Set<OperationName>;
  readonly enabled: Set<OperationName>;
  /** Operations never accepted, although their key was. The cause of their 403s cannot be known. */
  readonly notEnabled: Set<OperationName>;
  /** By operation, the keys rejected since its last acceptance and since the ring changed, but not for clock skew. */
  readonly rejectedWith: Map<OperationName, Set<string>>;
  /** When that last grew. */
  rejectedWithAt: number;
  /** By key, when a payment was last rejected since the last acceptance. */
  readonly rejectedPayments: Map<string, number>;
  /** Since when those are counted. */
  rejectedPaymentsSince: number;
  /** Since a second payment was rejected with one of them: how many were, and when the last one was. */
  probes?: { readonly count: number; readonly at: number };
  /** When all keys last became due again. */
  occasionAt: number;
  /**
   * Whether the last acceptance was sent before a 403 for the same key was received: the responses overtook each other,
   * and either may be what the gateway does now.
   */
  isAmbiguous: boolean;
  /** Operations rejected with a key that another operation was then accepted with: their 403s are no signs. */
  readonly contradicted: Set<OperationName>;
  /** Whether a rejected key was accepted since, perhaps for another operation. */
  wasContradicted: boolean;
  /** By operation, the first and the last 403 since its last acceptance. */
  readonly rejections: Map<OperationName, { readonly first: number; readonly last: number }>;
  /** The times of all 403s. */
  readonly rejectionTimes: number[];
}

export const keyKinds: readonly KeyKind[] = ['control_key', 'private_key'];

export function accept(
  facts: KindFacts,
  accepted: KindFacts['accepted'],
  now: number,
  isAmbiguous = false,
): void {
  if (facts.accepted?.key !== accepted?.key || facts.isAmbiguous) facts.acceptedSince = now;
  facts.acceptedAfterRemoval = accepted !== undefined && !facts.ring.includes(accepted.key);
  if (accepted === undefined) delete facts.accepted;
  else facts.accepted = accepted;
  facts.isAmbiguous = isAmbiguous;
  if (accepted === undefined) return;
  if (!isAmbiguous) facts.acceptedBefore.clear();
  facts.acceptedBefore.add(accepted.key);
}

export function viewOf(facts: KindFacts): KeyView {
  const { keys, ring, ringAt, accepted, acceptedAfterRemoval, acceptedBefore, acceptedSince } = facts;
  const { rejectedAt = never, provenAt = never } = keys.get(accepted?.key ?? '') ?? {};
  return {
    ring,
    ringAt,
    accepted: accepted?.key,
    acceptedAfterRemoval,
    acceptedBefore,
    acceptedSince,
    isProven: accepted === undefined || provenAt > rejectedAt,
    rejectedAt: (key) => keys.get(key)?.rejectedAt ?? never,
    rejectedSince: Math.min(...[...facts.rejections.values()].map(({ first }) => first)),
  };
}

export function newFacts(): Record<KeyKind, KindFacts> {
  const fresh = (): KindFacts => ({
    keys: new Map(),
    leftRejected: new Set(),
    ring: [],
    ringAt: never,
    acceptedSince: never,
    acceptedAfterRemoval: false,
    acceptedBefore: new Set(),
    signs: new Set(),
    enabled: new Set(),
    notEnabled: new Set(),
    rejectedWith: new Map(),
    rejectedWithAt: never,
    rejectedPayments: new Map(),
    rejectedPaymentsSince: never,
    isAmbiguous: false,
    contradicted: new Set(),
    wasContradicted: false,
    occasionAt: never,
    rejections: new Map(),
    rejectionTimes: [],
  });
  return { control_key: fresh(), private_key: fresh() };
}

export function factsOf({ keys }: KindFacts, key: string): KeyFacts {
  const known = keys.get(key) ?? newKeyFacts();
  keys.set(key, known);
  return known;
}

/** Whether the key was accepted since its last 403. An acceptance that was overtaken by a 403 proves nothing. */
export function isClear({ provenAt, rejectedAt }: KeyFacts): boolean {
  return provenAt - longestSignature > rejectedAt || rejectedAt === never;
}

function newKeyFacts(): KeyFacts {
  return {
    rejected: new Map(),
    rejectedWithoutSkew: new Set(),
    acceptedAt: never,
    provenAt: never,
    rejectedAt: never,
    failedFallbacks: new Map(),
  };
}

/** From now on the steps between such payments begin anew. */
export function resetProbes(facts: KindFacts, now: number): void {
  facts.rejectedPayments.clear();
  facts.rejectedPaymentsSince = now;
  delete facts.probes;
}

/** Makes all keys due again. */
export function occasion(facts: KindFacts, now: number): void {
  facts.occasionAt = now;
  for (const known of facts.keys.values()) known.failedFallbacks.clear();
}
