import { isSame } from './key-rejections.ts';
import type { UsableKey } from './key-source.ts';

/**
 * Why a key signs: the login has no other one (`only-key`), the gateway accepted it last (`last-accepted`), nothing
 * speaks against the newest (`newest`), the gateway rejected every newer one (`newer-rejected`), or it rejected all of
 * them (`none-accepted`).
 */
export type SelectionReason = 'only-key' | 'last-accepted' | 'newest' | 'newer-rejected' | 'none-accepted';

/** @param keys newest first */
export function selectionReason(
  key: UsableKey,
  keys: readonly UsableKey[],
  lastAccepted: UsableKey | undefined,
  isRejected: boolean,
): SelectionReason {
  if (keys.length < 2) return 'only-key';
  if (isSame(key, lastAccepted)) return 'last-accepted';
  if (isRejected) return 'none-accepted';
  return isSame(key, keys[0]) ? 'newest' : 'newer-rejected';
}
