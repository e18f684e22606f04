import type { KeySourceObserver } from '../../keys/key-source.ts';
import type { WallClock } from '../../util/clock.ts';

/** `denied`: it responds, and denies reading some keys. */
export const keySourceStates = ['up', 'denied', 'down'] as const;

/** Times in milliseconds since 1970. */
interface KeySourceState {
  /** `undefined` before the first read. */
  readonly state: (typeof keySourceStates)[number] | undefined;
  readonly since: number | undefined;
  readonly deniedLogins: number;
  readonly problem: string | undefined;
  readonly tokenExpiresAt: number | undefined;
  /** Number of logins whose cached keys are used although the source does not know the login. */
  readonly loginsNotFound: number;
}

export interface KeySourceRecorder
  extends Pick<
    KeySourceObserver,
    'keySourceUp' | 'loginFailed' | 'loginsDenied' | 'loginsNotFound' | 'tokenExpiryChanged'
  > {
  readonly keySource: () => KeySourceState;
  /** A reload changed the key source; what is known concerns the previous one. */
  readonly keySourceReplaced: () => void;
}

interface Known {
  readonly up: boolean | undefined;
  readonly outage: string | undefined;
  readonly denied: number;
  readonly denial: string | undefined;
}

const unknown: Known = { up: undefined, outage: undefined, denied: 0, denial: undefined };

/** Remembers whether the key source works, and since when. */
export function createKeySourceRecorder({ clock }: WallClock): KeySourceRecorder {
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
    keySource() {
      const state = stateOf(known);
      const problem = state === 'down' ? known.outage : state === 'denied' ? known.denial : undefined;
      return { state, since, deniedLogins: known.denied, problem, tokenExpiresAt, loginsNotFound };
    },
    loginsNotFound(count) {
      loginsNotFound = count;
    },
    keySourceReplaced() {
      known = unknown;
      since = undefined;
      tokenExpiresAt = undefined;
      loginsNotFound = 0;
    },
    keySourceUp: (up, outage) => change({ up, outage }),
    loginFailed: (outage) => change({ up: false, outage }),
    loginsDenied: (denied, denial) => change({ denied, denial }),
    tokenExpiryChanged(at) {
      tokenExpiresAt = at === undefined ? undefined : at * 1000;
    },
  };
}

/** While nothing can be read, nothing is known of denials. */
function stateOf({ up, denied }: Known): KeySourceState['state'] {
  if (up === undefined) return undefined;
  if (!up) return 'down';
  return denied > 0 ? 'denied' : 'up';
}
