import type { LoginRef } from '../../keys/login-ref.ts';
import type { MonotonicClock, WallTimes } from '../../util/clock.ts';
import type { StatusFacts } from './facts.ts';

/** Logins of which it is known why they could not be read: the latest. */
const maxProblems = 200;

type Facts = StatusFacts['keySource'];

/** What is shown, and what the rest of it is made of. */
interface Known extends Pick<Facts, 'deniedLogins' | 'deniedLogin' | 'loginsNotFound' | 'loginNotFound'> {
  readonly up?: boolean;
  readonly outage: string | null;
  readonly denial: string | null;
  /** Monotonic, milliseconds. */
  readonly since?: number;
}

const nothing: Known = {
  outage: null,
  denial: null,
  deniedLogins: 0,
  deniedLogin: null,
  loginsNotFound: 0,
  loginNotFound: null,
};

/** Remembers whether the key source works, since when, and why logins could not be read. */
export function createKeySourceRecorder({ monotonic }: MonotonicClock, shown: WallTimes) {
  let known = nothing;
  const problems = new Map<string, string>();
  const change = (changed: Partial<Known>): void => {
    const before = stateOf(known);
    known = { ...known, ...changed };
    if (stateOf(known) !== before) known = { ...known, since: monotonic() };
  };
  return {
    keySource() {
      const { up: _, outage, denial, since, ...others } = known;
      const state = stateOf(known);
      return {
        ...others,
        state,
        since: shown(since),
        problem: { up: null, denied: denial, down: outage }[state ?? 'up'],
      };
    },
    loginsNotFound: (loginsNotFound: number, _added?: LoginRef, loginNotFound: string | null = null) =>
      change({ loginsNotFound, loginNotFound }),
    /** Why the last read of a login failed that did. */
    readProblem: ({ environment, login }: LoginRef) => problems.get(`${environment}/${login}`),
    keyProblem(problem: string, { environment, login }: Partial<LoginRef> = {}): void {
      if (environment !== undefined && login !== undefined)
        setBounded(problems, `${environment}/${login}`, problem, maxProblems);
    },
    /** A reload changed the key source; what is known concerns the previous one. */
    keySourceReplaced(): void {
      known = nothing;
      problems.clear();
    },
    keySourceUp: (up: boolean, outage: string | null = null) => change({ up, outage }),
    loginFailed: (outage: string) => change({ up: false, outage }),
    loginsDenied: (deniedLogins: number, denial: string, deniedLogin: string | null = null) =>
      change({ deniedLogins, deniedLogin, denial }),
  };
}

/** While nothing can be read, nothing is known of denials. */
function stateOf({ up, deniedLogins }: Known): Facts['state'] {
  if (up === undefined) return null;
  if (!up) return 'down';
  return deniedLogins > 0 ? 'denied' : 'up';
}

/** As the newest; the oldest goes if there are more than `max`. */
export function setBounded<V>(map: Map<string, V>, name: string, value: V, max: number): void {
  map.delete(name);
  map.set(name, value);
  const [oldest] = map.keys();
  if (map.size > max && oldest !== undefined) map.delete(oldest);
}
