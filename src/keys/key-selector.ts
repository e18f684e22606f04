import { ProxyError } from '../errors.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import type { MonotonicClock, SetTimer, WallClock } from '../util/clock.ts';
import { inSpan } from '../util/trace.ts';
import { keysRejected, tooManyWaiting } from './errors.ts';
import type { Probe } from './held-back-payments.ts';
import type { KeyCache } from './key-cache.ts';
import {
  KeyHistory,
  type KeyUse,
  type MutableUse,
  type RejectedKey,
  type SelectionReason,
  type UsableKeys,
} from './key-history.ts';
import type { KeySourceObserver } from './key-source.ts';
import { type DescribedVersions, describeKeys } from './key-state.ts';
import { keyName, type LoginRef } from './login-ref.ts';
import { type Look, Looks } from './looks.ts';
import { type KeyRing, type UsableKey, usableKeys } from './ring.ts';
import { endless, type Patience, Waiting } from './waiting.ts';

/** Provides key rings. */
export type KeyProvider = Pick<KeyCache, 'get' | 'cached' | 'look' | 'isFailing' | 'keep'>;

export interface KeyFallbackObserver {
  /** A request was rejected with one key version and accepted with another. */
  keyFallback(login: LoginRef, kind: KeyKind, to: 'newer' | 'older'): void;
}

export interface KeySelectorOptions extends MonotonicClock, WallClock {
  readonly keys: KeyProvider;
  readonly metrics: KeyFallbackObserver & Pick<KeySourceObserver, 'keyProblem'>;
  readonly setTimer: SetTimer;
  /** Milliseconds during which a superseded key may still be tried. */
  readonly rotationGracePeriod: number;
}

/** What a response says about the key. `clock-skew`: a 403 with another cause. `unclear`: nothing. */
export type Verdict = 'accepted' | 'rejected' | 'clock-skew' | 'unclear';

/** What a payment's rejection speaks against: its key in this place. */
export interface Payment {
  /** Name of the operation. */
  readonly operation: string;
  /** Caller and path: what the gateway rejects in one place may be accepted in another one. */
  readonly place: string;
}

/** A key for a payment. */
export interface PaymentKey {
  readonly key: UsableKey;
  readonly probe?: Probe;
}

/** A rejected request is sent again with another key. */
interface KeyTrial extends MutableUse {
  /** To be set once there is a response. */
  verdict: Verdict;
}

/**
 * Selects the key version to sign with while Vault and the gateway may know different ones: for each login and kind of
 * key by its {@link LoginKeys}, which learn from the gateway's responses.
 */
export class KeySelector {
  readonly options: KeySelectorOptions;
  readonly looks: Looks;
  readonly waiting: Waiting;
  readonly #keys = new Map<string, LoginKeys>();

  constructor(options: KeySelectorOptions) {
    this.options = options;
    const { keys, monotonic } = options;
    this.waiting = new Waiting(options);
    this.looks = new Looks({ monotonic, look: (login) => keys.look(login) });
  }

  /**
   * The keys as cached now; those of a login that is not cached are read.
   *
   * @throws ProxyError `key-missing`, `key-unusable`, `key-source-unavailable`; `overloaded` if too many requests wait
   */
  async keysOf(login: LoginRef, kind: KeyKind, patience = endless): Promise<LoginKeys> {
    const ring = await this.ringOf(login, kind, patience);
    const name = keyName(login, kind);
    const known = this.#keys.get(name);
    if (known !== undefined) {
      known.observe(ring);
      return known;
    }
    // Remembered only if it has keys: a client can invent any number of names.
    const keys = new LoginKeys(login, kind, ring, this);
    this.#keys.set(name, keys);
    return keys;
  }

  /** The state of each version of a cached ring. Changes nothing, and keeps nothing about the login. */
  describe(login: LoginRef, kind: KeyKind, ring: KeyRing): DescribedVersions {
    const { clock, rotationGracePeriod } = this.options;
    const history = this.#keys.get(keyName(login, kind))?.history ?? new KeyHistory();
    const entries = ring.filter((entry) => entry.kind === kind);
    return describeKeys(entries, history, clock(), rotationGracePeriod);
  }

  /** Makes each login that needs a look get one at once: the source is back, or was configured anew. */
  lookAgain(): void {
    this.looks.reset();
    for (const { history } of this.#keys.values()) history.resetSteps();
  }

  /** As cached now, or read. @throws ProxyError `key-missing`, `key-source-unavailable`, `overloaded` */
  ringOf(login: LoginRef, kind: KeyKind, patience: Patience): Promise<KeyRing> {
    return inSpan('key lookup', (span) => {
      span?.add({ 'countersign.key.kind': kind });
      return this.#lookUp(login, kind, patience);
    });
  }

  async #lookUp(login: LoginRef, kind: KeyKind, patience: Patience): Promise<KeyRing> {
    const { keys } = this.options;
    const isCached = keys.cached(login)?.some((one) => one.kind === kind) ?? false;
    const ring = keys.get(login, patience.deadline, kind);
    // The cache ends the wait.
    if (!isCached && !(await this.waiting.forUncached(login, patience, ring))) {
      ring.catch(() => {});
      throw tooManyWaiting(login);
    }
    return ring;
  }
}

/** The rejected request that a look is for. */
interface LookReason {
  readonly operation: string;
  /** When its 403 was received; monotonic, milliseconds. */
  readonly startedAt: number;
}

interface Rejection extends RejectedKey {
  /** `false`: it has another cause. */
  readonly isAboutKey: boolean;
}

/** The trials of one rejected request. */
interface Trials extends LookReason {
  readonly patience: Patience;
  /** The 403 of each tried key. */
  readonly rejections: [Rejection, ...Rejection[]];
}

/**
 * The keys of one kind of one login: which one signs a request, and what the gateway's responses say about them.
 *
 * After a 403, one request tries the other keys of the ring, and reads the ring past the cache if none is accepted;
 * requests rejected meanwhile wait for the result. A key that was not accepted is tried again after a change of the
 * ring, after the first 403 for the last accepted key, or after its own back-off. So a gateway that rejects everything
 * causes no flood of requests to it or to Vault.
 */
export class LoginKeys {
  readonly history = new KeyHistory();
  readonly #login: LoginRef;
  readonly #kind: KeyKind;
  readonly #selector: KeySelector;
  readonly #options: KeySelectorOptions;
  #keys: UsableKeys;
  /** The last ring, if time does not change which of its keys may be used. */
  #settled: KeyRing | undefined;
  /** The trial or look in flight. */
  #trial: Promise<void> | undefined;
  /** The last look whose ring was observed. */
  #seen: Look | undefined;

  /** @throws ProxyError as {@link observe} */
  constructor(login: LoginRef, kind: KeyKind, ring: KeyRing, selector: KeySelector) {
    this.#login = login;
    this.#kind = kind;
    this.#selector = selector;
    this.#options = selector.options;
    this.#keys = this.#observed(ring);
  }

  /** @throws ProxyError `key-missing`, `key-unusable` */
  observe(ring: KeyRing): void {
    if (ring !== this.#settled) this.#keys = this.#observed(ring);
  }

  #observed(ring: KeyRing): UsableKeys {
    const { clock, rotationGracePeriod } = this.#options;
    const keys = usableKeys(this.#login, ring, this.#kind, clock(), rotationGracePeriod);
    this.history.observe(keys);
    this.#settled = ring.every(({ supersededAt }) => supersededAt === undefined) ? ring : undefined;
    return keys;
  }

  /** The key for a request that may be sent again. */
  select(): UsableKey {
    return this.history.select(this.#keys, 'retryable');
  }

  /** The key for a request that must not be sent again. Waits for a trial in flight if that may find a better one. */
  async selectOnce(patience: Patience = endless, place?: string): Promise<UsableKey> {
    if (this.#trial !== undefined && this.history.isInDoubt(place)) {
      const { waiting } = this.#selector;
      await waiting.inCompany(this.#login, patience, this.#trial, waiting.soon(patience));
      await this.#refresh(patience);
    }
    return this.history.select(this.#keys, 'single-attempt', place);
  }

  /**
   * The key for a payment that must not be sent again, unless it is held back (held-back-payments.ts).
   *
   * @throws ProxyError `key-rejected` for the other payments; `overloaded` if too many wait for the one; those of a read
   */
  async selectForPayment(
    { operation, place }: Payment,
    patience: Patience = { ...endless },
  ): Promise<PaymentKey> {
    const { waiting } = this.#selector;
    const startedAt = this.#options.monotonic();
    const soon = waiting.soon(patience);
    const key = await this.selectOnce(patience, place);
    if (!this.history.hasRejectedPayment(key, place)) return { key };
    if (this.#trial === undefined)
      await this.#exclusively(() => this.#look({ operation, startedAt }, { ...patience, deadline: soon }));
    const { payments } = this.history;
    for (;;) {
      // What a look or a probe found out meanwhile may also be that the keys are gone.
      await this.#refresh(patience);
      const choice = this.history.select(this.#keys, 'single-attempt', place);
      if (!this.history.hasRejectedPayment(choice, place)) return { key: choice };
      const other = payments.probeOf(place);
      const now = this.#options.monotonic();
      if (other !== undefined && now < soon) {
        if (await waiting.inCompany(this.#login, patience, other, soon)) continue;
        throw tooManyWaiting(this.#login);
      }
      const probe = payments.probe(place, now);
      if (typeof probe === 'number') throw keysRejected(this.#login, 1 + (probe * 1.5) / 1_000);
      return { key: choice, probe };
    }
  }

  /** Whether a payment would be signed with another key now. */
  isOutdated({ key, probe }: PaymentKey, place: string): boolean {
    return this.history.isOutdated(key, place, probe !== undefined);
  }

  /** Whether the ring has a newer key than the one that the gateway accepted last. */
  isAwaitingNewest(): boolean {
    return this.history.isAwaitingNewest();
  }

  /** Why the key is the one to sign with now, for the log. */
  reasonFor(key: UsableKey): SelectionReason {
    return this.history.reasonFor(key);
  }

  recordAccepted(use: KeyUse): void {
    this.history.recordAccepted(use);
    if (use.key.isAccepted !== true && this.history.isLastAccepted(use.key))
      this.#options.keys.keep(this.#login, use.key);
  }

  /**
   * The gateway rejected a single-attempt request. The next one is signed with another key if there is one, or
   * waits for a look that may find one.
   */
  recordRejected(use: KeyUse, verdict: Verdict, place = ''): void {
    this.#observeCached();
    const now = this.#options.monotonic();
    const reason = { operation: use.operation, startedAt: now };
    this.history.recordRejected(use, now, 'single-attempt', verdict === 'rejected', place);
    if (verdict === 'rejected') this.history.recordRejectedPayment(use, place, now);
    if (this.#trial === undefined && this.#mayLook(reason))
      void this.#exclusively(() => this.#look(reason, endless));
  }

  /**
   * The other keys that a rejected request may be sent again with, one after the other until there is a verdict other than
   * a 403. What is learned from a trial is remembered when the next key is requested, or the loop ends.
   */
  async *others(use: KeyUse, verdict: Verdict, patience = endless): AsyncGenerator<KeyTrial, void, void> {
    const { monotonic, keys } = this.#options;
    const { waiting } = this.#selector;
    const { key, operation } = use;
    const startedAt = monotonic();
    const isAboutKey = verdict === 'rejected';
    const rejections: Trials['rejections'] = [{ key, rejectedAt: startedAt, isAboutKey }];
    const trials: Trials = { operation, startedAt, patience, rejections };
    this.#observeCached();
    this.history.recordRejected(use, startedAt, 'retryable', isAboutKey);
    const soon = waiting.soon(patience);
    for (;;) {
      if (monotonic() >= patience.deadline) return;
      if (this.#trial !== undefined) {
        const until = keys.isFailing() ? soon : patience.deadline;
        if (!(await waiting.inCompany(this.#login, patience, this.#trial, until))) return;
        if (keys.isFailing() && monotonic() >= soon) return;
        continue;
      }
      const accepted = this.history.acceptedInstead(operation, keysIn(rejections));
      if (accepted === undefined) break;
      if (yield* this.#try(accepted, trials)) return;
    }
    const isDue = this.history.nextCandidate(operation, keysIn(rejections), monotonic()) !== undefined;
    if (!isDue && !this.#mayLook(trials)) return;
    const lookWait = keys.isFailing() ? { ...patience, deadline: soon } : patience;
    const end = this.#beginTrial();
    try {
      if (yield* this.#tryCandidates(trials)) return;
      await this.#look(trials, lookWait);
      if (yield* this.#tryCandidates(trials)) return;
      const aboutKey = rejections.filter((one) => one.isAboutKey);
      this.history.recordNoKeyAccepted(operation, keysIn(aboutKey), startedAt);
    } finally {
      end();
    }
  }

  /** Tries each key that is due. @returns whether that is over: a key was not rejected, or no time is left */
  async *#tryCandidates(trials: Trials): AsyncGenerator<KeyTrial, boolean, void> {
    const { monotonic } = this.#options;
    const { operation, patience, rejections } = trials;
    for (;;) {
      if (monotonic() >= patience.deadline) return true;
      const key = this.history.nextCandidate(operation, keysIn(rejections), monotonic());
      if (key === undefined) return false;
      if (yield* this.#try(key, trials)) return true;
    }
  }

  /** @returns whether the trials are over: the response is not another 403 */
  async *#try(key: UsableKey, trials: Trials): AsyncGenerator<KeyTrial, boolean, void> {
    const { operation } = trials;
    const trial: KeyTrial = { key, operation, sentAt: this.#options.monotonic(), verdict: 'unclear' };
    try {
      yield trial;
    } finally {
      this.#observeCached();
      if (trial.verdict === 'accepted') this.#recordReplacement(trial, trials);
      else this.#recordFailedTrial(trial, trials);
    }
    return trial.verdict === 'accepted' || trial.verdict === 'unclear';
  }

  #recordReplacement(trial: KeyTrial, { rejections }: Trials): void {
    const isFirst = this.history.recordReplaced(rejections, trial.operation);
    this.recordAccepted(trial);
    if (!isFirst) return;
    const to = trial.key.version > rejections[0].key.version ? 'newer' : 'older';
    this.#options.metrics.keyFallback(this.#login, this.#kind, to);
  }

  #recordFailedTrial(trial: KeyTrial, { rejections, patience }: Trials): void {
    const { key, verdict } = trial;
    const now = this.#options.monotonic();
    if (verdict !== 'unclear') {
      const isAboutKey = verdict === 'rejected';
      rejections.push({ key, rejectedAt: now, isAboutKey });
      this.history.recordRejected(trial, now, 'retryable', isAboutKey);
    }
    // A request that ran out of time says nothing about the key, which other requests may need.
    if (verdict !== 'unclear' || now < patience.deadline) this.history.recordFailedFallback(trial, now);
  }

  /** Others wait for it, and read the result from the history. @returns its end */
  #beginTrial(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#trial = promise;
    return () => {
      if (this.#trial === promise) this.#trial = undefined;
      resolve();
    };
  }

  async #exclusively(work: () => Promise<void>): Promise<void> {
    await work().finally(this.#beginTrial());
  }

  /** Reads the current keys past the cache, if that is due. Shares the look of the login's other kind. */
  async #look(reason: LookReason, patience: Patience): Promise<void> {
    const { looks, waiting } = this.#selector;
    if (!this.#mayLook(reason)) return;
    const look = looks.recent(this.#login) ?? looks.begin(this.#login);
    this.#seen = look;
    try {
      await waiting.until(patience.deadline, look.ring);
      await this.#refresh(patience);
    } catch (error) {
      this.#reportMissing(error);
    }
  }

  /**
   * A request that waits behind others for its turn needs no look if one began since its 403; while the source fails,
   * none if it has waited for one.
   */
  #mayLook({ operation, startedAt }: LookReason): boolean {
    const { looks } = this.#selector;
    const recent = looks.recent(this.#login);
    if (recent !== undefined) return recent.endedAt === undefined || this.#seen !== recent;
    const { beganAt, endedAt = beganAt } = this.#seen ?? { beganAt: Number.NEGATIVE_INFINITY };
    if ((this.#options.keys.isFailing() ? endedAt : beganAt) >= startedAt) return false;
    return looks.isDue(this.#login, this.history.isUrgent(operation, this.#options.monotonic()));
  }

  async #refresh(patience: Patience): Promise<void> {
    this.observe(await this.#selector.ringOf(this.#login, this.#kind, patience));
  }

  /** Keys may have been removed or added since the request was signed. */
  #observeCached(): void {
    const ring = this.#options.keys.cached(this.#login);
    if (ring === undefined) return;
    try {
      this.observe(ring);
    } catch (error) {
      this.#reportMissing(error);
    }
  }

  /** The gateway responded with 403: keys that were removed meanwhile must not hide that response. */
  #reportMissing(error: unknown): void {
    if (!(error instanceof ProxyError)) throw error;
    this.#options.metrics.keyProblem(`key fallback after 403 failed: ${error.detail}`, this.#login);
  }
}

function keysIn(rejections: readonly RejectedKey[]): UsableKey[] {
  return rejections.map(({ key }) => key);
}
