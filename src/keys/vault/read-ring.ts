import type { KeyKind } from '../../oauth1/methods.ts';
import { shownFields } from '../field-names.ts';
import type { KeyReading, NoKeys } from '../key-source.ts';
import {
  includesKey,
  type KeyRing,
  maxKeys,
  sameKey,
  type UnusableKey,
  type UsableKey,
  usableIn,
} from '../ring.ts';
import type { StoredVersion } from './kv2.ts';

/** A version of a login's secret with the keys in it; none if it is deleted or destroyed. */
export interface KeyVersion extends StoredVersion {
  readonly keys: KeyRing;
}

/** Versions that a read goes through at most: as many as Vault keeps unless configured otherwise. */
const maxVersions = 10;
const kinds: readonly KeyKind[] = ['control_key', 'private_key'];

/** Reads one version; without a number the current one. */
export type ReadVersion = (version?: number) => Promise<KeyVersion | undefined>;

interface Needs {
  /** Milliseconds since 1970. */
  readonly gracePeriodBegan: number;
  readonly known: KeyRing;
  /** Those of them that the gateway accepted last. */
  readonly accepted: readonly UsableKey[];
}

/**
 * Reads the current version, older ones until the grace period has passed for what they hold, and those of known keys
 * that are still needed. The first read of a login, of which nothing is known, continues until it has found both kinds.
 */
export async function readRing(readVersion: ReadVersion, needs: Needs): Promise<KeyReading | NoKeys> {
  const walk = await walkBack(readVersion, needs);
  const [current] = walk.versions;
  if (current === undefined) return 'not-found';
  const kept: UsableKey[] = [];
  const gone: UsableKey[] = [];
  const versions = new Map<number, KeyVersion | undefined>(walk.versions.map((one) => [one.version, one]));
  for (const key of neededKeys(needs, walk)) {
    if (!versions.has(key.version)) versions.set(key.version, await readVersion(key.version));
    const version = versions.get(key.version);
    const found = version && usableIn(version.keys).find((entry) => sameKey(entry, key));
    const supersededAt = key.supersededAt ?? walk.supersededAt.get(key.kind);
    if (found !== undefined) kept.push(superseded(found, supersededAt));
    else if (!isDeleted(key, version)) gone.push(superseded(key, supersededAt));
  }
  const found = [...walk.keys, ...kept];
  if (current.fields === undefined && usableIn(found).length === 0) return 'deleted';
  const lacking = lackedBy(current, [...found, ...gone]);
  return { ring: [...lacking, ...found], gone };
}

/**
 * Rather than removed by Vault, or replaced by another secret with the same numbers. A version never changes, so if it has
 * another usable key now, the one in the Transit engine that it names was deleted and made anew.
 */
function isDeleted({ createdAt, kind }: UsableKey, version: KeyVersion | undefined): boolean {
  if (version === undefined || version.createdAt.getTime() !== createdAt?.getTime()) return false;
  return version.fields === undefined || usableIn(version.keys).some((key) => key.kind === kind);
}

/** What the current version and those before it hold. */
interface Walk {
  /** Newest first; so are the keys, equal ones once. */
  readonly versions: KeyVersion[];
  readonly keys: KeyRing[number][];
  /**
   * By kind: when a version older than these was superseded; absent if none of them has a usable key of the kind. A
   * version that was deleted supersedes both: what it had is not known.
   */
  readonly supersededAt: Map<KeyKind, Date>;
}

async function walkBack(readVersion: ReadVersion, needs: Needs): Promise<Walk> {
  const walk: Walk = { versions: [], keys: [], supersededAt: new Map() };
  let next = await readVersion();
  while (next !== undefined) {
    addVersion(walk, next);
    const isLast = next.version === 1 || walk.versions.length === maxVersions || isOver(walk, needs);
    next = isLast ? undefined : await readVersion(next.version - 1);
  }
  return walk;
}

function addVersion({ versions, keys, supersededAt }: Walk, version: KeyVersion): void {
  versions.push(version);
  for (const kind of kinds) {
    const entry = version.keys.find((one) => one.kind === kind);
    if (entry !== undefined && isNew(entry, keys)) keys.push(superseded(entry, supersededAt.get(kind)));
    const isUsable = entry !== undefined && 'key' in entry;
    if (isUsable || version.fields === undefined) supersededAt.set(kind, version.createdAt);
  }
}

function isNew(entry: KeyRing[number], newer: KeyRing): boolean {
  if (!('key' in entry)) return true;
  const known = usableIn(newer).filter(({ kind }) => kind === entry.kind);
  return known.length < maxKeys && !known.some((one) => sameKey(one, entry));
}

/** Whether keys of older versions could not be used: every kind seen so far was superseded before the grace period. */
function isOver({ keys, supersededAt }: Walk, { gracePeriodBegan, known }: Needs): boolean {
  const sought = known.length === 0 ? kinds : keys.map(({ kind }) => kind);
  const hasPassed = (at: Date): boolean => at.getTime() <= gracePeriodBegan;
  const isFound = supersededAt.size > 0 && sought.every((kind) => supersededAt.has(kind));
  return isFound && [...supersededAt.values()].every(hasPassed);
}

/** Known keys that were not just read: the one that the gateway accepted last, and those that none replaces. */
function neededKeys({ known, accepted }: Needs, { keys, supersededAt }: Walk): UsableKey[] {
  const isNeeded = (key: UsableKey): boolean => includesKey(accepted, key) || !supersededAt.has(key.kind);
  return usableIn(known).filter((key) => isNeeded(key) && !includesKey(usableIn(keys), key));
}

/** A kind of key that the current version lacks, although an older one has it, was hardly left out on purpose. */
function lackedBy({ fields, version, createdAt }: StoredVersion, ring: KeyRing): UnusableKey[] {
  if (fields === undefined) return [];
  const has = (kind: KeyKind): boolean => ring.some((one) => one.kind === kind && one.version === version);
  const isNeeded = (kind: KeyKind): boolean =>
    usableIn(ring).some((one) => one.kind === kind && one.supersededAt === undefined);
  return kinds
    .filter((kind) => !has(kind) && isNeeded(kind))
    .map((kind) => ({
      kind,
      version,
      createdAt,
      problem: `the newest version lacks the field ${kind}${shownFields(fields)}`,
    }));
}

function superseded<Entry extends KeyRing[number]>(entry: Entry, at: Date | undefined): Entry {
  return at === undefined ? entry : { ...entry, supersededAt: at };
}
