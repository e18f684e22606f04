import type { CachedRing } from '../keys/cache-store.ts';
import type { KeyRing } from '../keys/key-source.ts';
import type { KeyStatus, Status } from '../observability/status/schema.ts';
import type { KeyServices } from './key-services.ts';

/** Rows of the list; a page with all logins would be neither fast nor readable. */
const maxKeys = 200;
const kinds: readonly KeyStatus['kind'][] = ['control_key', 'private_key'];

export type KeysInUse = Pick<KeyServices, 'cache' | 'keySelector'>;

export interface KeyStatusOptions {
  /** Removes logins that may not be written from a text. */
  readonly redact: (text: string) => string;
  /** A monotonic time in milliseconds as ISO 8601. */
  readonly timeOf: (monotonic: number) => string;
}

/** The keys in the cache, one row per login and kind. */
export function keyStatus(keys: KeysInUse, options: KeyStatusOptions): Status['keys'] {
  const list: KeyStatus[] = [];
  let total = 0;
  for (const cached of keys.cache.cachedRings()) {
    for (const kind of kinds) {
      if (!cached.ring.some((entry) => entry.kind === kind)) continue;
      total += 1;
      if (list.length < maxKeys) list.push(rowOf(cached, kind, keys, options));
    }
  }
  return { total, list };
}

function rowOf(
  { login: ref, ring, times }: CachedRing,
  kind: KeyStatus['kind'],
  { keySelector }: KeysInUse,
  { redact, timeOf }: KeyStatusOptions,
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
    nextRefreshAt: nextRefreshAt === undefined ? null : timeOf(nextRefreshAt),
  };
}

function factsOf(entry: KeyRing[number], redact: KeyStatusOptions['redact']) {
  return {
    version: entry.version,
    createdAt: entry.createdAt?.toISOString() ?? null,
    fingerprint: 'key' in entry ? (entry.fingerprint ?? null) : null,
    problem: 'problem' in entry ? redact(entry.problem) : null,
  };
}
