import { sameKey } from './key.ts';
import type { UsableKey } from './key-source.ts';
import type { RetrySteps } from './retry-steps.ts';

/** When an operation was rejected; monotonic, milliseconds. */
interface Span {
  readonly first: number;
  readonly last: number;
}

/** What is known of one key since the gateway last accepted it. */
export interface Rejections {
  readonly key: UsableKey;
  readonly byOperation: Map<string, Span>;
  /** When a request that could not be sent again was last rejected; monotonic, milliseconds. */
  carefulAt: number;
  /** By operation, when the key may be tried in place of another one. */
  readonly steps: Map<string, RetrySteps>;
  /** Whether its replacement by another key was counted. */
  replaced: boolean;
}

/** Whether a key is this one; no key is one that is not known. */
export function isSame(key: UsableKey, other: UsableKey | undefined): boolean {
  return other !== undefined && (key === other || sameKey(key, other));
}

export function includes(keys: readonly UsableKey[], key: UsableKey): boolean {
  return keys.some((one) => isSame(one, key));
}
