import type { WallClock } from '../../util/clock.ts';

/** `denied`: it responds, and denies reading some keys. */
export const keySourceStates = ['up', 'denied', 'down'] as const;

interface Known {
  readonly up: boolean | undefined;
  readonly outage: string | undefined;
  readonly denied: number;
  readonly denial: string | undefined;
}

const unknown: Known = { up: undefined, outage: undefined, denied: 0, denial: undefined };

/** Remembers whether the key source works, and since when. */
export function createKeySourceRecorder({ clock }: WallClock) {
  let known = unknown;
  let since: number | undefined;
  let tokenExpiresAt: number | undefined;
  let loginsNotFound = 0;
  const change = (changed: Partial<Known>): void => {
    const before = stateOf(known);
    known = { ...known, ...changed };
    if (stateOf(known) !== before) since = clock();
  };
  return {
    /** Times in milliseconds since 1970. */
    keySource() {
      const state = stateOf(known);
      const problem = state === 'down' ? known.outage : state === 'denied' ? known.denial : undefined;
      return { state, since, deniedLogins: known.denied, problem, tokenExpiresAt, loginsNotFound };
    },
    loginsNotFound(count: number): void {
      loginsNotFound = count;
    },
    keySourceReplaced(): void {
      known = unknown;
      since = undefined;
      tokenExpiresAt = undefined;
      loginsNotFound = 0;
    },
    keySourceUp: (up: boolean, outage?: string) => change({ up, outage }),
    loginFailed: (outage: string) => change({ up: false, outage }),
    loginsDenied: (denied: number, denial: string) => change({ denied, denial }),
    tokenExpiryChanged(at: number | undefined): void {
      tokenExpiresAt = at === undefined ? undefined : at * 1000;
    },
  };
}

/** While nothing can be read, nothing is known of denials. */
function stateOf({ up, denied }: Known): (typeof keySourceStates)[number] | undefined {
  if (up === undefined) return undefined;
  if (!up) return 'down';
  return denied > 0 ? 'denied' : 'up';
}
