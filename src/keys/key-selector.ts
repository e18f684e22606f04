import { ProxyError } from '../errors.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import { KeyHistory, type KeyUse, type RetryPolicy, type UsableKeys } from './key-history.ts';
import { type KeyFallbackObserver, KeyRetry, type KeyRetryCallbacks, type Verdict } from './key-retry.ts';
import type { KeyRing, KeySourceObserver, LoginRef, UsableKey } from './key-source.ts';
import { loginRefString } from './login-ref.ts';
import { usableKeys } from './ring.ts';
import type { SelectionReason } from './selection-reason.ts';

/** Where rings come from: keys/cached. */
export interface KeyProvider {
  /** @throws Refusal `key-missing`, `key-source-unavailable` */
  get(address: LoginRef): Promise<KeyRing>;
  /** Reads past the cache. */
  refresh(address: LoginRef): Promise<KeyRing | undefined>;
}

export interface KeySelectorOptions {
  readonly keys: KeyProvider;
  readonly meter: KeyFallbackObserver & Pick<KeySourceObserver, 'keyProblem'>;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  /** Resolves after so many milliseconds. */
  readonly wait: (milliseconds: number) => Promise<void>;
  /** Milliseconds for which a superseded key may still be tried. */
  readonly rotationGracePeriod: number;
}

/** Milliseconds between two reads of a login's ring past the cache. */
const refreshInterval = 1_000;
/** Milliseconds that a payment waits for a trial in flight, to be signed with the key that comes out of it. */
const maxWait = 1_000;

interface State {
  readonly history: KeyHistory;
  /** The trial or look in flight. */
  trial?: Promise<unknown>;
  /** The last look whose ring this kind of key knows. */
  seen?: Refresh;
}

interface Refresh {
  readonly beganAt: number;
  readonly ring: Promise<KeyRing | undefined>;
  isOver: boolean;
}

/**
 * Which version of a key to sign with, while Vault and the gateway may know different ones.
 *
 * After a 403 one request of the login tries the other keys of the ring, and reads the ring past the cache if
 * none helps; requests rejected meanwhile wait for the result. A key that did not help is tried again after a
 * change of the ring, after the first 403 for the key accepted last, or after its own back-off, so a gateway
 * that rejects everything causes no storm, here or at Vault.
 */
export class KeySelector {
  readonly #ports: KeySelectorOptions;
  readonly #states = new Map<string, State>();
  readonly #refreshes = new Map<string, Refresh>();

  constructor(ports: KeySelectorOptions) {
    this.#ports = ports;
  }

  /**
   * @param manner `careful` for a request that may not be sent again
   * @throws Refusal `key-missing`, `key-unusable`, `key-source-unavailable`
   */
  async select(address: LoginRef, kind: KeyKind, manner: RetryPolicy = 'bold'): Promise<UsableKey> {
    const state = this.#stateOf(address, kind);
    const keys = await this.#observed(address, kind);
    if (manner === 'bold' || state.trial === undefined || !state.history.isInDoubt(keys)) {
      return state.history.select(keys, manner);
    }
    await Promise.race([state.trial, this.#ports.wait(maxWait)]);
    return state.history.select(await this.#observed(address, kind), manner);
  }

  /** Whether a payment would be signed with another key by now. */
  isOutdated(address: LoginRef, key: UsableKey): boolean {
    return this.#stateOf(address, key.kind).history.isOutdated(key);
  }

  /** Whether the ring holds a newer key than the one that the gateway accepted last. */
  async isAwaitingNewest(address: LoginRef, kind: KeyKind): Promise<boolean> {
    return this.#stateOf(address, kind).history.isAwaitingNewest(await this.#observed(address, kind));
  }

  /** Why the key is the one to sign with now, for the log. */
  reasonFor(login: LoginRef, key: UsableKey): SelectionReason {
    return this.#stateOf(login, key.kind).history.reasonFor(key);
  }

  /** The gateway accepted a request. */
  recordAccepted(address: LoginRef, use: KeyUse): void {
    this.#stateOf(address, use.key.kind).history.recordAccepted(use);
  }

  /**
   * The gateway rejected a request that may not be sent again: the next one is signed with another key where
   * there is one, or waits for a look for a newer one.
   */
  recordRejected(address: LoginRef, use: KeyUse, verdict: Verdict): void {
    const state = this.#stateOf(address, use.key.kind);
    const now = this.#ports.monotonic();
    state.history.recordRejected(use, now, 'careful', verdict === 'rejected');
    if (state.trial !== undefined || !state.history.looks.isDue(now)) return;
    void exclusively(state, () => this.#refresh(address, use.key.kind));
  }

  /**
   * Sends a rejected request again, with each key of the ring for which there is a reason to hope.
   *
   * @returns the last response; `undefined` where nothing was tried
   */
  async retry<Reply>(
    address: LoginRef,
    rejected: KeyUse,
    verdict: Verdict,
    resending: KeyRetryCallbacks<Reply>,
  ): Promise<Reply | undefined> {
    const state = this.#stateOf(address, rejected.key.kind);
    state.history.recordRejected(rejected, this.#ports.monotonic(), 'bold', verdict === 'rejected');
    const retry = new KeyRetry(address, rejected, verdict, resending, state.history, this.#ports);
    for (;;) {
      if (state.trial !== undefined) {
        await state.trial;
        continue;
      }
      if (retry.isOverdue) return retry.reply;
      const accepted = state.history.acceptedInstead(rejected.operation, retry.tried);
      if (accepted === undefined) break;
      if (await retry.isOverWith(accepted)) return retry.reply;
    }
    const now = this.#ports.monotonic();
    const isWorthIt =
      state.history.nextCandidate(retry.operation, retry.tried, now) !== undefined ||
      this.#mayRefresh(address, state);
    if (isWorthIt) await exclusively(state, () => this.#try(address, state, retry));
    return retry.reply;
  }

  async #try<Reply>(address: LoginRef, state: State, retry: KeyRetry<Reply>): Promise<void> {
    if (await this.#isOverWithCandidates(address, state, retry)) return;
    await this.#refresh(address, retry.kind);
    if (await this.#isOverWithCandidates(address, state, retry)) return;
    state.history.recordNothingHelped(retry.operation, retry.rejected, retry.startedAt);
  }

  /** Tries each key that is due, until one is not rejected or no time is left. */
  async #isOverWithCandidates<Reply>(
    address: LoginRef,
    { history }: State,
    retry: KeyRetry<Reply>,
  ): Promise<boolean> {
    for (;;) {
      await this.#reobserve(address, retry.kind);
      if (retry.isOverdue) return true;
      const key = history.nextCandidate(retry.operation, retry.tried, this.#ports.monotonic());
      if (key === undefined) return false;
      if (await retry.isOverWith(key)) return true;
    }
  }

  /** Reads the ring past the cache, unless that was done just now. Others of the login may be at it. */
  async #refresh(address: LoginRef, kind: KeyKind): Promise<void> {
    const state = this.#stateOf(address, kind);
    const look = this.#mayRefresh(address, state) ? this.#beginRefresh(address, state) : undefined;
    if (look !== undefined) state.seen = look;
    try {
      if ((await look?.ring) !== undefined) await this.#observed(address, kind);
    } catch (error) {
      this.#reportMissing(address, error);
    }
  }

  async #reobserve(address: LoginRef, kind: KeyKind): Promise<void> {
    try {
      await this.#observed(address, kind);
    } catch (error) {
      this.#reportMissing(address, error);
    }
  }

  /** The gateway has answered 403 already: keys that have gone meanwhile must not hide that answer. */
  #reportMissing(address: LoginRef, error: unknown): void {
    if (!(error instanceof ProxyError)) throw error;
    this.#ports.meter.keyProblem(`after a 403 no other key could be tried: ${error.detail}`, address);
  }

  #mayRefresh(address: LoginRef, { history, seen }: State): boolean {
    const now = this.#ports.monotonic();
    const last = this.#refreshes.get(loginRefString(address));
    if (last !== undefined && now < last.beganAt + refreshInterval) return !last.isOver || seen !== last;
    return history.looks.isDue(now);
  }

  #beginRefresh(address: LoginRef, { history }: State): Refresh {
    const beganAt = this.#ports.monotonic();
    const last = this.#refreshes.get(loginRefString(address));
    if (last !== undefined && beganAt < last.beganAt + refreshInterval) return last;
    history.looks.recordFruitless(beganAt);
    const look: Refresh = { beganAt, ring: this.#ports.keys.refresh(address), isOver: false };
    const end = (): void => {
      look.isOver = true;
    };
    look.ring.then(end, end);
    this.#refreshes.set(loginRefString(address), look);
    return look;
  }

  /** The usable keys as they are held now. */
  async #observed(address: LoginRef, kind: KeyKind): Promise<UsableKeys> {
    const ring = await this.#ports.keys.get(address);
    const keys = usableKeys(address, ring, kind, this.#ports.clock(), this.#ports.rotationGracePeriod);
    this.#stateOf(address, kind).history.observe(keys);
    return keys;
  }

  #stateOf(address: LoginRef, kind: KeyKind): State {
    const name = `${loginRefString(address)}/${kind}`;
    const known = this.#states.get(name);
    if (known !== undefined) return known;
    const state: State = { history: new KeyHistory() };
    this.#states.set(name, state);
    return state;
  }
}

/** Requests that wait learn the result from the history; a failure belongs to the one who tried. */
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
