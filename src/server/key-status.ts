import type { CachedRing } from '../keys/cache-store.ts';
import type { KeyRing, LoginRef } from '../keys/key-source.ts';
import type { MissingKey } from '../observability/status/missing-keys.ts';
import type { StatusRecorder } from '../observability/status/recorder.ts';
import type { KeyStatus, Status } from '../observability/status/schema.ts';
import { isoTime } from '../util/iso-time.ts';
import type { KeyServices } from './key-services.ts';

/** Rows of the list; a page with all logins would be neither fast nor readable. */
const maxKeys = 200;
const kinds: readonly KeyStatus['kind'][] = ['control_key', 'private_key'];

export type KeysInUse = Pick<KeyServices, 'cache' | 'keySelector'>;

export interface KeyStatusOptions {
  /** Removes logins that may not be written from a text. */
  readonly redact: (text: string) => string;
  readonly recorder: Pick<StatusRecorder, 'missingKeys' | 'readProblem'>;
  /** A monotonic time in milliseconds as ISO 8601. */
  readonly timeOf: (monotonic: number) => string;
}

/** The keys in the cache and those that vanished, one row per login and kind. */
export function keyStatus(keys: KeysInUse, options: KeyStatusOptions): Status['keys'] {
  const missing = new Map(options.recorder.missingKeys().map((key) => [nameOf(key, key.kind), key]));
  const list: KeyStatus[] = [];
  let total = 0;
  for (const cached of keys.cache.cachedRings()) {
    for (const kind of kinds) {
      if (!cached.ring.some((entry) => entry.kind === kind)) continue;
      const name = nameOf(cached.login, kind);
      total += 1;
      if (list.length < maxKeys) list.push(rowOf(cached, kind, keys, options, missing.get(name)));
      missing.delete(name);
    }
  }
  const gone = Array.from(missing.values(), (key) => goneRow(key, options));
  return { total: total + gone.length, list: [...gone, ...list].slice(0, maxKeys) };
}

function nameOf({ environment, login }: LoginRef, kind: KeyStatus['kind']): string {
  return `${environment}/${login} ${kind}`;
}

/** No version of it is left. */
function goneRow(
  { environment, login, kind, version, since }: MissingKey,
  { redact }: KeyStatusOptions,
): KeyStatus {
  return {
    environment,
    login: redact(login),
    kind,
    newestVersion: version,
    signingVersion: null,
    versions: [],
    readAt: isoTime(since),
    staleSince: null,
    readProblem: null,
    missingSince: isoTime(since),
    nextRefreshAt: null,
  };
}

function rowOf(
  { login: ref, ring, times }: CachedRing,
  kind: KeyStatus['kind'],
  { keySelector }: KeysInUse,
  { redact, timeOf, recorder }: KeyStatusOptions,
  missing: MissingKey | undefined,
): KeyStatus {
  const { readAt, staleSince, nextRefreshAt } = times();
  const { versions, signing } = keySelector.describe(ref, kind, ring);
  return {
    environment: ref.environment,
    login: redact(ref.login),
    kind,
    newestVersion: versions[0]?.entry.version ?? 0,
    signingVersion: signing?.version ?? null,
    versions: versions.map(({ entry, state }) => ({ state, ...factsOf(entry, redact) })),
    readAt: timeOf(readAt),
    staleSince: staleSince === undefined ? null : timeOf(staleSince),
    readProblem: staleSince === undefined ? null : (recorder.readProblem(ref) ?? null),
    missingSince: missing === undefined ? null : isoTime(missing.since),
    nextRefreshAt: nextRefreshAt === undefined ? null : timeOf(nextRefreshAt),
  };
}

function factsOf(entry: KeyRing[number], redact: KeyStatusOptions['redact']) {
  return {
    version: entry.version,
    createdAt: entry.createdAt === undefined ? null : isoTime(entry.createdAt.getTime()),
    fingerprint: 'key' in entry ? (entry.fingerprint ?? null) : null,
    problem: 'problem' in entry ? redact(entry.problem) : null,
  };
}
