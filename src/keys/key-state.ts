import type { KeyHistory } from './key-history.ts';
import { distinctKeys, type KeyRing, mayBeUsed, type UsableKey } from './ring.ts';

/**
 * The state of a version: it signs payments (`in-use`), it is newer than the one that the gateway accepts (`waiting`),
 * the gateway rejected it (`rejected`), it is older (`replaced`), or it cannot be used (`unusable`).
 */
export type KeyState = 'in-use' | 'waiting' | 'rejected' | 'replaced' | 'unusable';

interface DescribedVersion {
  readonly entry: KeyRing[number];
  readonly state: KeyState;
  /** What the gateway said last; absent if neither is known. */
  readonly verdict?: 'accepted' | 'rejected' | undefined;
}

export interface DescribedVersions {
  /** Newest first; equal keys of several versions once, with their newest version. */
  readonly versions: readonly DescribedVersion[];
  /** The key that signs payments. */
  readonly signing: UsableKey | undefined;
}

/**
 * The versions of one login and kind. Changes nothing.
 *
 * @param entries of one kind, newest first
 * @param now milliseconds since 1970
 * @param gracePeriod milliseconds
 */
export function describeKeys(
  entries: KeyRing,
  history: KeyHistory,
  now: number,
  gracePeriod: number,
): DescribedVersions {
  const [newest, ...others] = distinctKeys(entries.filter((entry) => mayBeUsed(entry, now, gracePeriod)));
  const signing = newest && history.select([newest, ...others], 'single-attempt');
  const distinct = distinctKeys(entries);
  const shown = entries.filter((entry) => !('key' in entry) || distinct.includes(entry));
  const trusted = signing !== undefined && !history.isLastRejected(signing) ? signing : undefined;
  const best = history.acceptedAmong(distinct) ?? trusted;
  const stateOf = (entry: KeyRing[number], index: number): KeyState => {
    if (!('key' in entry)) return 'unusable';
    if (entry === trusted) return 'in-use';
    if (best !== undefined && index < shown.indexOf(best)) return 'waiting';
    return history.isLastRejected(entry) ? 'rejected' : 'replaced';
  };
  const verdictOf = (entry: KeyRing[number]): DescribedVersion['verdict'] => {
    if (!('key' in entry)) return undefined;
    if (history.isLastRejected(entry)) return 'rejected';
    return history.isLastAccepted(entry) ? 'accepted' : undefined;
  };
  const describe = (entry: KeyRing[number], index: number): DescribedVersion => ({
    entry,
    state: stateOf(entry, index),
    verdict: verdictOf(entry),
  });
  return { versions: shown.map(describe), signing };
}
