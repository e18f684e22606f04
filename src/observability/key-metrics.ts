import type { KeyRing, LoginRef, UsableKey } from '../keys/key-source.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import { redactedLogin } from './login-redactor.ts';
import type { Metrics } from './metric-definitions.ts';
import type { GaugeOf } from './metric-factory.ts';

type KeyLabels = { environment: string; login: string; kind: KeyKind };

/** The metrics that name a login: only for key rings in use, and only for a limited number of them. */
export interface KeyMetrics {
  readonly keyRingUpdated: (login: LoginRef, ring: KeyRing | undefined) => void;
  readonly keyFallback: (login: LoginRef, kind: KeyKind, to: 'newer' | 'older') => void;
  /** The gateway accepted a request signed with this version. */
  readonly recordAccepted: (login: LoginRef, kind: KeyKind, version: number) => void;
}

const kinds: readonly KeyKind[] = ['control_key', 'private_key'];
const directions = ['newer', 'older'] as const;

export function createKeyMetrics(metrics: Metrics, maxLogins = 1000): KeyMetrics {
  /** Usable versions by {@link seriesId}, newest first, joined to one string. */
  const shown = new Map<string, string>();
  const { keyVersion, keySigningVersion, keyCreated, keyUnusable, fallbacks } = metrics;

  function setSeries(labels: KeyLabels, entries: KeyRing): void {
    const id = seriesId(labels);
    const keys = entries.filter(usable);
    const versions = keys.map(({ version }) => version).join();
    if (!shown.has(id)) for (const to of directions) fallbacks.inc({ ...labels, to }, 0);
    keyUnusable.set(labels, entries.filter(isUnusableNow).length);
    setOrRemove(keyVersion, labels, keys[0]?.version);
    setOrRemove(keyCreated, labels, seconds(keys[0]?.createdAt));
    // Refreshing a ring without a change keeps the signing version.
    if (shown.get(id) !== versions) setOrRemove(keySigningVersion, labels, keys[0]?.version);
    shown.set(id, versions);
  }

  function removeSeries(labels: KeyLabels): void {
    if (!shown.delete(seriesId(labels))) return;
    for (const gauge of [keyVersion, keySigningVersion, keyCreated, keyUnusable]) gauge.remove(labels);
    for (const to of directions) fallbacks.remove({ ...labels, to });
  }

  return {
    keyRingUpdated({ environment, login }, ring = []) {
      // All such logins would share one series.
      if (login === redactedLogin) return;
      for (const kind of kinds) {
        const labels = { environment, login, kind };
        const entries = ring.filter((entry) => entry.kind === kind);
        const hasRoom = shown.has(seriesId(labels)) || shown.size < maxLogins * kinds.length;
        if (entries.length === 0) removeSeries(labels);
        else if (hasRoom) setSeries(labels, entries);
      }
    },
    keyFallback({ environment, login }, kind, to) {
      const labels = { environment, login, kind };
      if (shown.has(seriesId(labels))) fallbacks.inc({ ...labels, to });
    },
    recordAccepted({ environment, login }, kind, version) {
      const labels = { environment, login, kind };
      if (shown.has(seriesId(labels))) keySigningVersion.set(labels, version);
    },
  };
}

/** None of the three contains a slash. */
function seriesId({ environment, login, kind }: KeyLabels): string {
  return `${environment}/${login}/${kind}`;
}

function usable(entry: KeyRing[number]): entry is UsableKey {
  return 'key' in entry;
}

/** An unusable version that a newer one replaced needs no action, although the ring keeps it for a while. */
function isUnusableNow(entry: KeyRing[number]): boolean {
  return !usable(entry) && entry.supersededAt === undefined;
}

function seconds(date: Date | undefined): number | undefined {
  return date === undefined ? undefined : date.getTime() / 1000;
}

export function setOrRemove<Name extends string>(
  gauge: GaugeOf<Name>,
  labels: Record<Name, string>,
  value: number | undefined,
): void {
  if (value === undefined) gauge.remove(labels);
  else gauge.set(labels, value);
}
