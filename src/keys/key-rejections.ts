import { Backoff } from '../util/backoff.ts';
import { sameKey } from './key.ts';
import type { UsableKey } from './key-source.ts';

/** Milliseconds until a rejected key is tried again. */
const retrySteps = { initial: 1_000, max: 30_000 };
/** How many callers and paths with rejected payments are remembered. */
export const maxPlaces = 100;

/** When an operation was first and last rejected; monotonic, milliseconds. */
interface Span {
  readonly first: number;
  readonly last: number;
}

/** A key and when the gateway's 403 for it was received; monotonic, milliseconds. */
export interface RejectedKey {
  readonly key: UsableKey;
  readonly rejectedAt: number;
}

/** Rejections of one key since the gateway last accepted it. */
export interface Rejections {
  readonly key: UsableKey;
  readonly byOperation: Map<string, Span>;
  /** When a single-attempt request was last rejected; monotonic, milliseconds. */
  lastSingleAttempt: number;
  /** By operation: when the key may be tried as a fallback again. */
  readonly steps: Backoff;
  /** By caller and path: when the first 403 of a payment was received; monotonic, milliseconds. */
  readonly places: Map<string, number>;
  /** Whether the fallback from this key to another one was counted. */
  replaced: boolean;
}

/** Those of the key, added if there are none yet. */
export function ofKey(all: Rejections[], key: UsableKey): Rejections {
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

/** As {@link sameKey}; `undefined` equals no key. */
export function isSame(key: UsableKey, other: UsableKey | undefined): boolean {
  return other !== undefined && (key === other || sameKey(key, other));
}

export function includes(keys: readonly UsableKey[], key: UsableKey): boolean {
  return keys.some((one) => isSame(one, key));
}

/** The uses with this one in place of another of its key that was sent before it. Responses may overtake each other. */
export function withLatest<Use extends { readonly key: UsableKey; readonly sentAt: number }>(
  uses: readonly Use[],
  use: Use,
): readonly Use[] {
  const known = uses.find((one) => isSame(use.key, one.key));
  if (known !== undefined && known.sentAt > use.sentAt) return uses;
  return [...uses.filter((one) => one !== known), use];
}
