import type { KeyRing, LoginRef, LostKey, RingRemoval } from '../../keys/key-source.ts';
import { isoTime, type MonotonicClock, type WallClock } from '../../util/clock.ts';

/** A key in use that the key source no longer has. */
export interface MissingKey extends LoginRef, LostKey {
  readonly since: string;
}

/** As the default of `keys.cache.staleIfError`: milliseconds after its last request in which a login is in use. */
const inUse = 43_200_000;
/** Of logins, the latest count. */
const limit = 200;

/** Remembers the keys that vanished, since the cache has no entry for them, and why logins could not be read. */
export function createMissingKeyRecorder({ clock, monotonic }: WallClock & MonotonicClock) {
  const missing = new Map<string, { keys: MissingKey[]; wantedAt: number }>();
  const problems = new Map<string, string>();
  const nameOf = ({ environment, login }: LoginRef): string => `${environment}/${login}`;
  return {
    missingKeys(): MissingKey[] {
      const now = monotonic();
      return [...missing.values()].flatMap(({ keys, wantedAt }) => (now - wantedAt < inUse ? keys : []));
    },
    /** Why the last read of a login failed that did. */
    readProblem: (login: LoginRef) => problems.get(nameOf(login)),
    /** A request failed because its login has no key. */
    keyWanted: (login: LoginRef): void => {
      const known = missing.get(nameOf(login));
      if (known !== undefined) known.wantedAt = monotonic();
    },
    /** A reload changed where keys are read from. */
    forgetKeys: (): void => {
      missing.clear();
      problems.clear();
    },
    keyRingUpdated(
      login: LoginRef,
      ring?: KeyRing,
      removal?: RingRemoval,
      lost: readonly LostKey[] = [],
    ): void {
      const name = nameOf(login);
      const before = missing.get(name)?.keys ?? [];
      missing.delete(name);
      const isGone = ring === undefined && removal !== 'deleted';
      const back = new Set(
        ring?.flatMap(({ kind, supersededAt }) => (supersededAt === undefined ? [kind] : [])),
      );
      const keys = [
        ...before.filter(({ kind }) => !back.has(kind)),
        ...lost.map((key) => ({ ...login, ...key, since: isoTime(clock()) })),
      ];
      if (!isGone && keys.length > 0) setBounded(missing, name, { keys, wantedAt: monotonic() });
    },
    keyProblem(problem: string, { environment, login }: Partial<LoginRef> = {}): void {
      if (environment === undefined || login === undefined) return;
      setBounded(problems, nameOf({ environment, login }), problem);
    },
  };
}

/** As the newest; the oldest goes if there are more than `max`. */
export function setBounded<V>(map: Map<string, V>, name: string, value: V, max = limit): void {
  map.delete(name);
  map.set(name, value);
  const [oldest] = map.keys();
  if (map.size > max && oldest !== undefined) map.delete(oldest);
}
