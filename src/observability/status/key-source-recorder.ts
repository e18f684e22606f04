import type { LostKey, RingRemoval } from '../../keys/key-source.ts';
import type { LoginRef } from '../../keys/login-ref.ts';
import type { KeyRing } from '../../keys/ring.ts';
import type { MonotonicClock, WallClock, WallTimes } from '../../util/clock.ts';
import type { StatusFacts } from './facts.ts';

type Facts = StatusFacts['keySource'];

/** What is shown, and what the rest of it is made of. */
interface Known extends Pick<Facts, 'deniedLogins' | 'deniedLogin' | 'loginsNotFound' | 'loginNotFound'> {
  readonly up?: boolean;
  readonly outage: string | null;
  readonly denial: string | null;
  /** Monotonic, milliseconds. */
  readonly since?: number;
  /** The same: Vault measures that time, not the wall clock of this machine. */
  readonly tokenExpiresAt?: number | undefined;
}

const nothing: Known = {
  outage: null,
  denial: null,
  deniedLogins: 0,
  deniedLogin: null,
  loginsNotFound: 0,
  loginNotFound: null,
};

/** Remembers whether the key source works, and since when. */
export function createKeySourceRecorder({ clock, monotonic }: WallClock & MonotonicClock, shown: WallTimes) {
  let known = nothing;
  const change = (changed: Partial<Known>): void => {
    const before = stateOf(known);
    known = { ...known, ...changed };
    if (stateOf(known) !== before) known = { ...known, since: monotonic() };
  };
  return {
    keySource() {
      const { up: _, outage, denial, since, tokenExpiresAt, ...others } = known;
      const state = stateOf(known);
      return {
        ...others,
        state,
        since: shown(since),
        tokenExpiresAt: shown(tokenExpiresAt),
        problem: { up: null, denied: denial, down: outage }[state ?? 'up'],
      };
    },
    loginsNotFound: (loginsNotFound: number, _added?: LoginRef, loginNotFound: string | null = null) =>
      change({ loginsNotFound, loginNotFound }),
    keySourceReplaced(): void {
      known = nothing;
    },
    keySourceUp: (up: boolean, outage: string | null = null) => change({ up, outage }),
    loginFailed: (outage: string) => change({ up: false, outage }),
    loginsDenied: (deniedLogins: number, denial: string, deniedLogin: string | null = null) =>
      change({ deniedLogins, deniedLogin, denial }),
    /** @param at seconds since 1970 */
    tokenExpiryChanged: (at: number | undefined) =>
      change({ tokenExpiresAt: at === undefined ? undefined : at * 1000 - clock() + monotonic() }),
  };
}

/** While nothing can be read, nothing is known of denials. */
function stateOf({ up, deniedLogins }: Known): Facts['state'] {
  if (up === undefined) return null;
  if (!up) return 'down';
  return deniedLogins > 0 ? 'denied' : 'up';
}

/** A key in use that the key source no longer has. */
export interface MissingKey extends LoginRef, LostKey {
  readonly since: string;
}

/** As the default of `keys.cache.staleIfError`: milliseconds after its last request in which a login is in use. */
const inUse = 43_200_000;
/** Of logins, the latest count. */
const limit = 200;

/** Remembers the keys that vanished, since the cache has no entry for them, and why logins could not be read. */
export function createMissingKeyRecorder({ monotonic }: MonotonicClock, shown: WallTimes) {
  /** Times are monotonic, milliseconds. */
  const missing = new Map<
    string,
    { keys: (LoginRef & LostKey & { readonly since: number })[]; wantedAt: number }
  >();
  const problems = new Map<string, string>();
  const nameOf = ({ environment, login }: LoginRef): string => `${environment}/${login}`;
  return {
    missingKeys(): MissingKey[] {
      const wanted = [...missing.values()].filter(({ wantedAt }) => monotonic() - wantedAt < inUse);
      return wanted.flatMap(({ keys }) => keys.map((key) => ({ ...key, since: shown(key.since) })));
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
        ...lost.map((key) => ({ ...login, ...key, since: monotonic() })),
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
