import type { MonotonicClock, WallClock } from '../util/clock.ts';
import type { KeyChoice } from './choice.ts';
import { distinctKeys, type KeyRing, mayBeUsed, sameKey, type UsableKey } from './ring.ts';

/**
 * The state of a version: it signs (`in-use`), it is newer than the one that does (`waiting`), the gateway rejected it
 * (`rejected`), it is older (`replaced`), or it cannot be used (`unusable`).
 */
export type KeyState = 'in-use' | 'waiting' | 'rejected' | 'replaced' | 'unusable';

interface DescribedVersion {
  readonly entry: KeyRing[number];
  readonly state: KeyState;
}

export interface DescribedVersions {
  /** Newest first; equal keys of several versions once, with their newest version. */
  readonly versions: readonly DescribedVersion[];
  /** The key that signs. */
  readonly signing: UsableKey | undefined;
}

/**
 * The versions of one login and kind. Changes nothing.
 *
 * @param entries of one kind, newest first
 * @param choice absent if no request needed one yet
 * @param gracePeriod milliseconds
 */
export function describeKeys(
  entries: KeyRing,
  choice: KeyChoice | undefined,
  { clock, monotonic }: WallClock & MonotonicClock,
  gracePeriod: number,
): DescribedVersions {
  const now = monotonic();
  const mayUse = (entry: KeyRing[number]) => mayBeUsed(entry, clock(), gracePeriod, choice?.accepted);
  const [newest] = distinctKeys(entries.filter(mayUse));
  const distinct = distinctKeys(entries);
  const shown = entries.filter((entry) => !('key' in entry) || distinct.includes(entry));
  const current = choice?.current ?? newest;
  const signing = distinct.find((key) => sameKey(key, current));
  const stateOf = (entry: KeyRing[number], index: number): KeyState => {
    if (!('key' in entry)) return 'unusable';
    const isRejected = choice?.isRejected(entry, now) === true;
    if (signing !== undefined && index < shown.indexOf(signing)) return 'waiting';
    if (isRejected) return 'rejected';
    return entry === signing ? 'in-use' : 'replaced';
  };
  return { versions: shown.map((entry, index) => ({ entry, state: stateOf(entry, index) })), signing };
}
