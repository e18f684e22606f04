import type { KeyAddress, KeyRing, UsableKey } from '../keys/source.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import type { Metrics } from './metrics.ts';

type KeyLabels = { environment: string; login: string; kind: KeyKind };

/** The metrics that name a login: only for rings in use, and for a bounded number of them. */
export interface KeySeries {
  readonly ringChanged: (address: KeyAddress, ring: KeyRing | undefined) => void;
  readonly fellBack: (address: KeyAddress, kind: KeyKind, to: 'newer' | 'older') => void;
  /** The gateway accepted a request signed with this version. */
  readonly accepted: (address: KeyAddress, kind: KeyKind, version: number) => void;
}

const kinds: readonly KeyKind[] = ['control_key', 'private_key'];
const directions = ['newer', 'older'] as const;

export function createKeySeries(metrics: Metrics, mostLogins = 1000): KeySeries {
  /** Usable keys by {@link seriesId}, newest first. */
  const shown = new Map<string, readonly UsableKey[]>();

  function show(labels: KeyLabels, keys: readonly UsableKey[]): void {
    const id = seriesId(labels);
    const newest = keys[0];
    if (newest === undefined) return hide(labels);
    metrics.keyVersion.set(labels, newest.version);
    if (newest.createdAt === undefined) metrics.keyCreated.remove(labels);
    else metrics.keyCreated.set(labels, newest.createdAt.getTime() / 1000);
    // A ring that was only read again leaves the version that signs as it is.
    if (!sameVersions(shown.get(id), keys)) metrics.keySigningVersion.set(labels, newest.version);
    if (!shown.has(id)) for (const to of directions) metrics.fallbacks.inc({ ...labels, to }, 0);
    shown.set(id, keys);
  }

  function hide(labels: KeyLabels): void {
    if (!shown.delete(seriesId(labels))) return;
    for (const gauge of [metrics.keyVersion, metrics.keySigningVersion, metrics.keyCreated])
      gauge.remove(labels);
    for (const to of directions) metrics.fallbacks.remove({ ...labels, to });
  }

  return {
    ringChanged({ environment, login }, ring = []) {
      for (const kind of kinds) {
        const labels = { environment, login, kind };
        const room = shown.has(seriesId(labels)) || shown.size < mostLogins * kinds.length;
        if (room)
          show(
            labels,
            ring.filter(usable).filter((key) => key.kind === kind),
          );
      }
    },
    fellBack({ environment, login }, kind, to) {
      const labels = { environment, login, kind };
      if (shown.has(seriesId(labels))) metrics.fallbacks.inc({ ...labels, to });
    },
    accepted({ environment, login }, kind, version) {
      const labels = { environment, login, kind };
      if (shown.has(seriesId(labels))) metrics.keySigningVersion.set(labels, version);
    },
  };
}

/** None of the three holds a slash. */
function seriesId({ environment, login, kind }: KeyLabels): string {
  return `${environment}/${login}/${kind}`;
}

function usable(entry: KeyRing[number]): entry is UsableKey {
  return 'key' in entry;
}

function sameVersions(some: readonly UsableKey[] | undefined, others: readonly UsableKey[]): boolean {
  return some?.length === others.length && some.every((key, at) => key.version === others[at]?.version);
}
