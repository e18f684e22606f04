import { ProxyError } from '../errors.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import { KeyHistory, type KeyUse, type RetryPolicy, type UsableKeys } from './key-history.ts';
import { type KeyFallbackObserver, KeyRetry, type KeyRetryCallbacks, type Verdict } from './key-retry.ts';
import type { KeyRing, KeySourceObserver, LoginRef, UsableKey } from './key-source.ts';
import { type DescribedVersions, describeKeys } from './key-state.ts';
import { keyName } from './login-ref.ts';
import { usableKeys } from './ring.ts';
import { type RingRefresh, RingRefreshes } from './ring-refreshes.ts';
import type { SelectionReason } from './selection-reason.ts';

/** Provides key rings: KeyCache. */
export interface KeyProvider {
  /** @throws ProxyError `key-missing`, `key-source-unavailable` */
  get(login: LoginRef): Promise<KeyRing>;
  /** The ring in the cache, without a read. */
  cached(login: LoginRef): KeyRing | undefined;
  /** Reads past the cache. */
  refresh(login: LoginRef): Promise<KeyRing | undefined>;
}

export interface KeySelectorOptions {
  readonly keys: KeyProvider;
  readonly metrics: KeyFallbackObserver & Pick<KeySourceObserver, 'keyProblem'>;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  /** Resolves after the given number of milliseconds. */
  readonly wait: (milliseconds: number) => Promise<void>;
  /** Milliseconds during which a superseded key may still be tried. */
  readonly rotationGracePeriod: number;
}

/** Milliseconds that a payment waits for a trial in flight, to use the key that it finds. */
const maxWait = 1_000;

interface State {
  readonly history: KeyHistory;
  /** The trial or refresh in flight. */
  trial?: Promise<unknown>;
  /** The last refresh whose ring was observed for this kind of key. */
  seen?: RingRefresh;
}

/**
 * Selects the key version to sign with while Vault and the gateway may know different ones.
 *
 * After a 403, one request of the login tries the other keys of the ring, and reads the ring past the cache if
 * none is accepted; requests rejected meanwhile wait for the result. A key that was not accepted is tried again
 * after a change of the ring, after the first 403 for the last accepted key, or after its own back-off. So a
 * gateway that rejects everything causes no flood of requests to it or to Vault.
 */
export class KeySelector {
  readonly #options: KeySelectorOptions;
  readonly #states = new Map<string, State>();
  readonly #refreshes: RingRefreshes;

  constructor(options: KeySelectorOptions) {
    this.#options = options;
    const { keys, monotonic } = options;
    this.#refreshes = new RingRefreshes({ refresh: (login) => keys.refresh(login), monotonic });
  }

  /**
   * @param policy `single-attempt` for a request that must not be sent again
   * @throws ProxyError `key-missing`, `key-unusable`, `key-source-unavailable`
   */
  async select(login: LoginRef, kind: KeyKind, policy: RetryPolicy = 'retryable'): Promise<UsableKey> {
    const keys = await this.#observed(login, kind);
    const state = this.#stateOf(login, kind);
    if (policy === 'retryable' || state.trial === undefined || !state.history.isInDoubt(keys)) {
      return state.history.select(keys, policy);
    }
    await Promise.race([state.trial, this.#options.wait(maxWait)]);
    return state.history.select(await this.#observed(login, kind), policy);
  }

  /** Whether a payment would be signed with another key now. */
  isOutdated(login: LoginRef, key: UsableKey): boolean {
    return this.#stateOf(login, key.kind).history.isOutdated(key);
  }

  /** Whether the ring has a newer key than the one that the gateway accepted last. */
  async isAwaitingNewest(login: LoginRef, kind: KeyKind): Promise<boolean> {
    const keys = await this.#observed(login, kind);
    return this.#stateOf(login, kind).history.isAwaitingNewest(keys);
  }

  /** Why the key is the one to sign with now, for the log. */
  reasonFor(login: LoginRef, key: UsableKey): SelectionReason {
    return this.#stateOf(login, key.kind).history.reasonFor(key);
  }

  /** The state of each version of a cached ring. Changes nothing, and keeps nothing about the login. */
  describe(login: LoginRef, kind: KeyKind, ring: KeyRing): DescribedVersions {
    const { clock, rotationGracePeriod } = this.#options;
    const history = this.#states.get(keyName(login, kind))?.history ?? new KeyHistory();
    const entries = ring.filter((entry) => entry.kind === kind);
    return describeKeys(entries, history, clock(), rotationGracePeriod);
  }

  recordAccepted(login: LoginRef, use: KeyUse): void {
    this.#stateOf(login, use.key.kind).history.recordAccepted(use);
  }

  /**
   * The gateway rejected a single-attempt request. The next one is signed with another key if there is one, or
   * waits for a refresh that may find one.
   */
  recordRejected(login: LoginRef, use: KeyUse, verdict: Verdict): void {
    const state = this.#stateOf(login, use.key.kind);
    const now = this.#options.monotonic();
    state.history.recordRejected(use, now, 'single-attempt', verdict === 'rejected');
    if (state.trial !== undefined || !state.history.refreshSteps.isDue(now)) return;
    void exclusively(state, () => this.#refresh(login, use.key.kind));
  }

  /**
   * Retries a rejected request with the other keys that are due.
   *
   * @returns the last response; `undefined` if nothing was sent
   */
  async retry<Response>(
    login: LoginRef,
    rejected: KeyUse,
    verdict: Verdict,
    callbacks: KeyRetryCallbacks<Response>,
  ): Promise<Response | undefined> {
    const state = this.#stateOf(login, rejected.key.kind);
    this.#observeCached(login, rejected.key.kind);
    state.history.recordRejected(rejected, this.#options.monotonic(), 'retryable', verdict === 'rejected');
    const retry = new KeyRetry(login, rejected, verdict, callbacks, state.history, {
      ...this.#options,
      observe: () => this.#observeCached(login, rejected.key.kind),
    });
    for (;;) {
      if (state.trial !== undefined) {
        await state.trial;
        continue;
      }
      if (retry.isOverdue) return retry.response;
      const accepted = state.history.acceptedInstead(rejected.operation, retry.tried);
      if (accepted === undefined) break;
      if (await retry.tryKey(accepted)) return retry.response;
    }
    const now = this.#options.monotonic();
    const canTry =
      state.history.nextCandidate(retry.operation, retry.tried, now) !== undefined ||
      this.#mayRefresh(login, state);
    if (canTry) await exclusively(state, () => this.#tryOtherKeys(login, state, retry));
    return retry.response;
  }

  async #tryOtherKeys<Response>(login: LoginRef, state: State, retry: KeyRetry<Response>): Promise<void> {
    if (await this.#tryCandidates(state, retry)) return;
    await this.#refresh(login, retry.kind);
    if (await this.#tryCandidates(state, retry)) return;
    state.history.recordNoKeyAccepted(retry.operation, retry.rejected, retry.startedAt);
  }

  /** Tries each key that is due. Returns whether the retry is over: a key was not rejected, or no time is left. */
  async #tryCandidates<Response>({ history }: State, retry: KeyRetry<Response>): Promise<boolean> {
    for (;;) {
      if (retry.isOverdue) return true;
      const key = history.nextCandidate(retry.operation, retry.tried, this.#options.monotonic());
      if (key === undefined) return false;
      if (await retry.tryKey(key)) return true;
    }
  }

  /** Reads the ring past the cache, unless that was just done. Shares the refresh of the login's other kind. */
  async #refresh(login: LoginRef, kind: KeyKind): Promise<void> {
    const state = this.#stateOf(login, kind);
    if (!this.#mayRefresh(login, state)) return;
    const refresh = this.#refreshes.recent(login) ?? this.#beginRefresh(login, state);
    state.seen = refresh;
    try {
      await refresh.ring;
      await this.#observed(login, kind);
    } catch (error) {
      this.#reportMissing(login, error);
    }
  }

  /** Keys may have been removed or added since the request was signed. */
  #observeCached(login: LoginRef, kind: KeyKind): void {
    const ring = this.#options.keys.cached(login);
    if (ring === undefined) return;
    try {
      this.#observe(login, kind, ring);
    } catch (error) {
      this.#reportMissing(login, error);
    }
  }

  /** The gateway responded with 403: keys that were removed meanwhile must not hide that response. */
  #reportMissing(login: LoginRef, error: unknown): void {
    if (!(error instanceof ProxyError)) throw error;
    this.#options.metrics.keyProblem(`key fallback after 403 failed: ${error.detail}`, login);
  }

  #mayRefresh(login: LoginRef, { history, seen }: State): boolean {
    const recent = this.#refreshes.recent(login);
    if (recent !== undefined) return !recent.isOver || seen !== recent;
    return history.refreshSteps.isDue(this.#options.monotonic());
  }

  #beginRefresh(login: LoginRef, { history }: State): RingRefresh {
    history.refreshSteps.recordFailure(this.#options.monotonic());
    return this.#refreshes.begin(login);
  }

  /** The usable keys as cached now. */
  async #observed(login: LoginRef, kind: KeyKind): Promise<UsableKeys> {
    return this.#observe(login, kind, await this.#options.keys.get(login));
  }

  #observe(login: LoginRef, kind: KeyKind, ring: KeyRing): UsableKeys {
    const keys = usableKeys(login, ring, kind, this.#options.clock(), this.#options.rotationGracePeriod);
    this.#stateOf(login, kind).history.observe(keys);
    return keys;
  }

  /** Only for logins that have keys: a client can invent any number of names. */
  #stateOf(login: LoginRef, kind: KeyKind): State {
    const name = keyName(login, kind);
    const known = this.#states.get(name);
    if (known !== undefined) return known;
    const state: State = { history: new KeyHistory() };
    this.#states.set(name, state);
    return state;
  }
}

/** Waiting requests read the result from the history; an error is thrown only to the request that tried. */
async function exclusively(state: State, work: () => Promise<void>): Promise<void> {
  const trial = work();
  const settled = trial.then(noop, noop);
  state.trial = settled;
  try {
    await trial;
  } finally {
    if (state.trial === settled) delete state.trial;
  }
}

function noop(): void {}
