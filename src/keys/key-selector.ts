import { ProxyError } from '../errors.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import type { SetTimer } from '../util/timer.ts';
import { keysRejected, tooManyWaiting } from './errors.ts';
import { KeyHistory, type KeyUse, type RetryPolicy, type UsableKeys } from './key-history.ts';
import {
  endless,
  type KeyFallbackObserver,
  KeyRetry,
  type KeyRetryCallbacks,
  type Patience,
  type Verdict,
} from './key-retry.ts';
import type { KeyRing, KeySourceObserver, LoginRef, UsableKey } from './key-source.ts';
import { type DescribedVersions, describeKeys } from './key-state.ts';
import { keyName, loginRefString } from './login-ref.ts';
import { type Look, Looks } from './looks.ts';
import { usableKeys } from './ring.ts';
import type { SelectionReason } from './selection-reason.ts';

/** Provides key rings: KeyCache. */
export interface KeyProvider {
  /**
   * @param deadline until when to wait for the source; monotonic, milliseconds
   * @param kind of the key that is needed
   * @throws ProxyError `key-missing`, `key-source-unavailable`
   */
  get(login: LoginRef, deadline?: number, kind?: KeyKind): Promise<KeyRing>;
  /** The ring in the cache, without a read. */
  cached(login: LoginRef): KeyRing | undefined;
  /** Reads past the cache. While the source fails, returns what is cached after a second. */
  look(login: LoginRef): Promise<KeyRing | undefined>;
  /** Whether the source was unavailable when last read. */
  isFailing(): boolean;
  /** The gateway accepted this key last: it stays as long as the source has it. */
  keep(login: LoginRef, key: UsableKey): void;
}

/** What a payment's rejection speaks against: its key in this place. */
export interface Payment {
  /** Name of the operation. */
  readonly operation: string;
  /** Caller and path. */
  readonly place: string;
}

/** A key for a payment. */
export interface PaymentKey {
  readonly key: UsableKey;
  /** Of a payment that is sent although the key was rejected. */
  readonly probe?: Probe;
}

export interface Probe {
  /** To be called when the response was recorded, or there is none. */
  readonly end: () => void;
}

export interface KeySelectorOptions {
  readonly keys: KeyProvider;
  readonly metrics: KeyFallbackObserver & Pick<KeySourceObserver, 'keyProblem'>;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  readonly setTimer: SetTimer;
  /** Milliseconds during which a superseded key may still be tried. */
  readonly rotationGracePeriod: number;
}

/** Milliseconds that a payment waits for a trial, a look or a probe in flight. */
const maxWait = 1_000;
/** Milliseconds between looks for a key that is not urgent. */
const rareInterval = 30_000;

/** The rejected request that a look is for. */
interface LookReason {
  readonly operation: string;
  /** When its 403 was received; monotonic, milliseconds. */
  readonly startedAt: number;
}

interface State {
  readonly history: KeyHistory;
  /** The trial or look in flight. */
  trial?: Promise<unknown>;
  /** By caller and path: resolves when the payment that probes the rejected keys has its result. */
  readonly probes: Map<string, Promise<void>>;
  /** The last look whose ring was observed for this kind of key. */
  seen?: Look;
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
  readonly #looks: Looks;
  /** How many requests of a login wait; absent where none does. */
  readonly #waiting = new Map<string, number>();

  constructor(options: KeySelectorOptions) {
    this.#options = options;
    const { keys, monotonic, metrics, setTimer } = options;
    this.#looks = new Looks({
      monotonic,
      setTimer,
      look: (login) => keys.look(login),
      intervalChanged: (seconds) => metrics.keyLookInterval(seconds),
    });
  }

  /**
   * @param policy `single-attempt` for a request that must not be sent again
   * @throws ProxyError `key-missing`, `key-unusable`, `key-source-unavailable`, `overloaded`
   */
  async select(
    login: LoginRef,
    kind: KeyKind,
    policy: RetryPolicy = 'retryable',
    patience = endless,
  ): Promise<UsableKey> {
    const keys = await this.#observed(login, kind, patience);
    const state = this.#stateOf(login, kind);
    if (policy === 'retryable' || state.trial === undefined || !state.history.isInDoubt(keys)) {
      return state.history.select(keys, policy);
    }
    await this.#waitInCompany(login, patience, state.trial, this.#soon(patience));
    return state.history.select(await this.#observed(login, kind, patience), policy);
  }

  /**
   * The key for a payment that must not be sent again. After a 403 for a payment of a place, the next one with the same key
   * goes out alone, as a probe; after two in a row, one per step, to find out whether a key is accepted again.
   *
   * @param place caller and path: what the gateway rejects in one place may be accepted in another one
   * @throws ProxyError `key-rejected` for the other payments, and as {@link select}
   */
  async selectForPayment(
    login: LoginRef,
    kind: KeyKind,
    { operation, place }: Payment,
    patience = endless,
  ): Promise<PaymentKey> {
    const startedAt = this.#options.monotonic();
    const soon = this.#soon(patience);
    const key = await this.select(login, kind, 'single-attempt', patience);
    const state = this.#stateOf(login, kind);
    if (!state.history.hasRejectedPayment(key, place)) return { key };
    if (state.trial === undefined) {
      const look = () => this.#look(login, kind, { operation, startedAt }, { ...patience, deadline: soon });
      await exclusively(state, look);
    }
    for (let hasWaited = false; ; hasWaited = true) {
      const keys = await this.#observed(login, kind, patience);
      const choice = state.history.select(keys, 'single-attempt');
      if (!state.history.hasRejectedPayment(choice, place)) return { key: choice };
      const probe = state.probes.get(place);
      if (probe === undefined || hasWaited) return this.#probe(login, state, choice, place);
      await this.#waitInCompany(login, patience, probe, soon);
    }
  }

  /** Whether a payment would be signed with another key now. */
  isOutdated(login: LoginRef, { key, probe }: PaymentKey): boolean {
    return this.#stateOf(login, key.kind).history.isOutdated(key, probe !== undefined);
  }

  /** Whether the ring has a newer key than the one that the gateway accepted last. */
  async isAwaitingNewest(login: LoginRef, kind: KeyKind, patience = endless): Promise<boolean> {
    const keys = await this.#observed(login, kind, patience);
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
    const { history } = this.#stateOf(login, use.key.kind);
    history.recordAccepted(use);
    if (use.key.isAccepted !== true && history.isLastAccepted(use.key))
      this.#options.keys.keep(login, use.key);
  }

  /**
   * The gateway rejected a single-attempt request. The next one is signed with another key if there is one, or
   * waits for a refresh that may find one.
   */
  recordRejected(login: LoginRef, use: KeyUse, verdict: Verdict, place = ''): void {
    const state = this.#stateOf(login, use.key.kind);
    this.#observeCached(login, use.key.kind);
    const now = this.#options.monotonic();
    const reason = { operation: use.operation, startedAt: now };
    state.history.recordRejected(use, now, 'single-attempt', verdict === 'rejected');
    if (verdict === 'rejected') state.history.recordRejectedPayment(use, place, now);
    if (state.trial !== undefined || !this.#mayLook(login, state, reason)) return;
    void exclusively(state, () => this.#look(login, use.key.kind, reason));
  }

  /** Makes each login that needs a look get one at once: the source is back, or was configured anew. */
  lookAgain(): void {
    this.#looks.reset();
    for (const { history } of this.#states.values()) history.resetSteps();
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
      recordAccepted: (use) => this.recordAccepted(login, use),
    });
    const { patience = endless } = callbacks;
    const soon = this.#soon(patience);
    for (;;) {
      if (retry.isOverdue) return retry.response;
      if (state.trial !== undefined) {
        const until = this.#options.keys.isFailing() ? soon : patience.deadline;
        if (!(await this.#waitInCompany(login, patience, state.trial, until))) return retry.response;
        if (this.#options.keys.isFailing() && this.#options.monotonic() >= soon) return retry.response;
        continue;
      }
      const accepted = state.history.acceptedInstead(rejected.operation, retry.tried);
      if (accepted === undefined) break;
      if (await retry.tryKey(accepted)) return retry.response;
    }
    const now = this.#options.monotonic();
    const canTry =
      state.history.nextCandidate(retry.operation, retry.tried, now) !== undefined ||
      this.#mayLook(login, state, retry);
    const lookWait = this.#options.keys.isFailing() ? { ...patience, deadline: soon } : patience;
    if (canTry) await exclusively(state, () => this.#tryOtherKeys(login, state, retry, lookWait));
    return retry.response;
  }

  async #tryOtherKeys<Response>(
    login: LoginRef,
    state: State,
    retry: KeyRetry<Response>,
    patience: Patience,
  ): Promise<void> {
    if (await this.#tryCandidates(state, retry)) return;
    await this.#look(login, retry.kind, retry, patience);
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

  /** Reads the current keys past the cache, if that is due. Shares the look of the login's other kind. */
  async #look(login: LoginRef, kind: KeyKind, reason: LookReason, patience = endless): Promise<void> {
    const state = this.#stateOf(login, kind);
    if (!this.#mayLook(login, state, reason)) return;
    const look = this.#looks.recent(login) ?? this.#looks.begin(login);
    state.seen = look;
    try {
      await this.#waitFor(look.ring, patience.deadline);
      await this.#observed(login, kind, patience);
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

  /**
   * A request that waits behind others for its turn needs no look if one began since its 403; while the source fails,
   * none if it has waited for one.
   */
  #mayLook(login: LoginRef, { history, seen }: State, { operation, startedAt }: LookReason): boolean {
    const recent = this.#looks.recent(login);
    if (recent !== undefined) return recent.endedAt === undefined || seen !== recent;
    const { beganAt, endedAt = beganAt } = seen ?? { beganAt: Number.NEGATIVE_INFINITY };
    if ((this.#options.keys.isFailing() ? endedAt : beganAt) >= startedAt) return false;
    const isUrgent = history.isUrgent(operation, this.#options.monotonic());
    return this.#looks.isDue(login, isUrgent ? 0 : rareInterval);
  }

  /** @throws ProxyError `key-rejected` if the place is held back and the next step has not come */
  #probe(login: LoginRef, { history, probes }: State, key: UsableKey, place: string): PaymentKey {
    if (history.isHeldBack(place)) {
      const now = this.#options.monotonic();
      const remaining = history.paymentSteps.remaining(now, place);
      if (remaining > 0) throw keysRejected(login, remaining / 1_000);
      history.paymentSteps.recordFailure(now, {}, place);
    } else if (probes.has(place)) {
      return { key, probe: { end: noop } };
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    probes.set(place, promise);
    const end = (): void => {
      if (probes.get(place) === promise) probes.delete(place);
      resolve();
    };
    return { key, probe: { end } };
  }

  #soon({ deadline }: Patience): number {
    return Math.min(deadline, this.#options.monotonic() + maxWait);
  }

  /** Resolves with the work, or at the deadline. */
  async #waitFor(work: Promise<unknown>, deadline: number): Promise<void> {
    if (deadline === Number.POSITIVE_INFINITY) return void (await work);
    const late = Promise.withResolvers<void>();
    const cancel = this.#options.setTimer(late.resolve, Math.max(0, deadline - this.#options.monotonic()));
    await Promise.race([work, late.promise]).finally(cancel);
  }

  /** As {@link #waitFor}. @returns `false` at once, without a wait, if too many requests of the login wait */
  async #waitInCompany(
    login: LoginRef,
    { deadline, maxWaiting }: Patience,
    work: Promise<unknown>,
    until = deadline,
  ): Promise<boolean> {
    const name = loginRefString(login);
    const others = this.#waiting.get(name) ?? 0;
    if (others >= maxWaiting) return false;
    this.#waiting.set(name, others + 1);
    try {
      await this.#waitFor(work, until);
    } finally {
      const left = (this.#waiting.get(name) ?? 1) - 1;
      if (left > 0) this.#waiting.set(name, left);
      else this.#waiting.delete(name);
    }
    return true;
  }

  /** Also with those of other logins: a caller can invent any number of them. */
  async #waitUncached(
    { environment, login }: LoginRef,
    patience: Patience,
    ring: Promise<KeyRing>,
  ): Promise<boolean> {
    const all = { environment, login: '' };
    const ofAll = { ...patience, maxWaiting: 2 * patience.maxWaiting };
    let hasRoom = false;
    const wait = async (): Promise<void> => {
      hasRoom = await this.#waitInCompany({ environment, login }, patience, ring, Number.POSITIVE_INFINITY);
    };
    return (await this.#waitInCompany(all, ofAll, wait(), Number.POSITIVE_INFINITY)) && hasRoom;
  }

  /** The usable keys as cached now. @throws ProxyError `overloaded` if too many requests wait for them */
  async #observed(login: LoginRef, kind: KeyKind, patience = endless): Promise<UsableKeys> {
    const { keys } = this.#options;
    const isCached = keys.cached(login)?.some((one) => one.kind === kind) ?? false;
    const ring = keys.get(login, patience.deadline, kind);
    // The cache ends the wait.
    if (!isCached && !(await this.#waitUncached(login, patience, ring))) {
      ring.catch(noop);
      throw tooManyWaiting(login);
    }
    return this.#observe(login, kind, await ring);
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
    const state: State = { history: new KeyHistory(), probes: new Map() };
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
