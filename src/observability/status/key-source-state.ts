import { isoTime, type WallClock } from '../../util/clock.ts';

/** `denied`: it responds, and denies reading some keys. */
export const keySourceStates = ['up', 'denied', 'down'] as const;

interface Known {
  readonly up?: boolean;
  readonly outage: string | null;
  readonly deniedLogins: number;
  readonly denial: string | null;
  readonly since: string | null;
  readonly tokenExpiresAt: string | null;
  readonly loginsNotFound: number;
}

const nothing: Known = {
  outage: null,
  deniedLogins: 0,
  denial: null,
  since: null,
  tokenExpiresAt: null,
  loginsNotFound: 0,
};

/** Remembers whether the key source works, and since when. */
export function createKeySourceRecorder({ clock }: WallClock) {
  let known = nothing;
  const change = (changed: Partial<Known>): void => {
    const before = stateOf(known);
    known = { ...known, ...changed };
    if (stateOf(known) !== before) known = { ...known, since: isoTime(clock()) };
  };
  return {
    keySource() {
      const { up: _, outage, denial, ...others } = known;
      const state = stateOf(known);
      return { ...others, state, problem: { up: null, denied: denial, down: outage }[state ?? 'up'] };
    },
    loginsNotFound: (loginsNotFound: number) => change({ loginsNotFound }),
    keySourceReplaced(): void {
      known = nothing;
    },
    keySourceUp: (up: boolean, outage: string | null = null) => change({ up, outage }),
    loginFailed: (outage: string) => change({ up: false, outage }),
    loginsDenied: (deniedLogins: number, denial: string) => change({ deniedLogins, denial }),
    /** @param at seconds since 1970 */
    tokenExpiryChanged: (at: number | undefined) =>
      change({ tokenExpiresAt: at === undefined ? null : isoTime(at * 1000) }),
  };
}

/** While nothing can be read, nothing is known of denials. */
function stateOf({ up, deniedLogins }: Known): (typeof keySourceStates)[number] | null {
  if (up === undefined) return null;
  if (!up) return 'down';
  return deniedLogins > 0 ? 'denied' : 'up';
}
