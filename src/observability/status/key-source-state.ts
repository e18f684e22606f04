import type { KeySourceObserver } from '../../keys/key-source.ts';
import type { WallClock } from '../../util/clock.ts';

/** Times in milliseconds since 1970. */
export interface KeySourceState {
  /** `undefined` before the first read. */
  readonly up: boolean | undefined;
  readonly since: number | undefined;
  readonly problem: string | undefined;
  readonly tokenExpiresAt: number | undefined;
  /** Number of logins whose cached keys are used although the source does not know the login. */
  readonly loginsNotFound: number;
}

export interface KeySourceRecorder
  extends Pick<KeySourceObserver, 'keySourceUp' | 'loginFailed' | 'loginsNotFound' | 'tokenExpiryChanged'> {
  readonly keySource: () => KeySourceState;
  /** A reload changed the key source; what is known concerns the previous one. */
  readonly keySourceReplaced: () => void;
}

const unknown: KeySourceState = {
  up: undefined,
  since: undefined,
  problem: undefined,
  tokenExpiresAt: undefined,
  loginsNotFound: 0,
};

/** Remembers whether the key source works, and since when. */
export function createKeySourceRecorder({ clock }: WallClock): KeySourceRecorder {
  let state = unknown;
  const change = (up: boolean, problem: string | undefined): void => {
    if (state.up !== up) state = { ...state, up, since: clock() };
    if (state.problem !== problem) state = { ...state, problem };
  };
  return {
    keySource: () => state,
    keySourceReplaced() {
      state = unknown;
    },
    loginsNotFound(count) {
      state = { ...state, loginsNotFound: count };
    },
    keySourceUp: (up, cause) => change(up, up ? undefined : cause),
    loginFailed: (problem) => change(false, problem),
    tokenExpiryChanged(at) {
      state = { ...state, tokenExpiresAt: at === undefined ? undefined : at * 1000 };
    },
  };
}
