import type { KeyKind } from '../oauth1/methods.ts';
import type { MonotonicClock } from '../util/clock.ts';
import type { KeyHistory, KeyUse, MutableUse } from './key-history.ts';
import type { RejectedKey } from './key-rejections.ts';
import type { LoginRef, UsableKey } from './key-source.ts';

export interface KeyFallbackObserver {
  /** A request was rejected with one key version and accepted with another. */
  keyFallback(login: LoginRef, kind: KeyKind, to: 'newer' | 'older'): void;
  /** Seconds between two looks at a login whose keys the gateway rejects. */
  keyLookInterval(seconds: number): void;
}

export interface KeyRetryOptions extends MonotonicClock {
  readonly metrics: KeyFallbackObserver;
  /** Updates the history with the keys as cached now. Called before it learns from a response. */
  readonly observe: () => void;
  readonly recordAccepted: (use: KeyUse) => void;
}

/** How long a request waits for keys, and in how large a company. */
export interface Patience {
  /** Monotonic, milliseconds. */
  readonly deadline: number;
  /** How many requests of the login may wait, so that they cannot use the slots of all others. */
  readonly maxWaiting: number;
}

export const endless: Patience = {
  deadline: Number.POSITIVE_INFINITY,
  maxWaiting: Number.POSITIVE_INFINITY,
};

/** What a response says about the key. `clock-skew`: a 403 with another cause. `unclear`: nothing. */
export type Verdict = 'accepted' | 'rejected' | 'clock-skew' | 'unclear';

export interface KeyRetryCallbacks<Response> {
  /** Signs with the key of the use, sends, and sets `sentAt`. */
  readonly send: (use: MutableUse) => Promise<Response>;
  readonly judge: (response: Response) => Verdict;
  /** How long the request may wait. Default: as long as it takes. */
  readonly patience?: Patience;
}

/** The retries of one rejected request, each with another key. */
export class KeyRetry<Response> {
  readonly kind: KeyKind;
  readonly operation: string;
  readonly tried: UsableKey[];
  /** Monotonic, milliseconds. */
  readonly startedAt: number;
  /** The tried keys that the gateway rejected; without those whose response is unclear. */
  readonly rejected: UsableKey[] = [];
  response: Response | undefined;
  /** Of each tried key, the 403 for whatever cause. */
  readonly #rejections: [RejectedKey, ...RejectedKey[]];
  readonly #login: LoginRef;
  readonly #callbacks: KeyRetryCallbacks<Response>;
  readonly #history: KeyHistory;
  readonly #options: KeyRetryOptions;

  constructor(
    login: LoginRef,
    { key, operation }: KeyUse,
    verdict: Verdict,
    callbacks: KeyRetryCallbacks<Response>,
    history: KeyHistory,
    options: KeyRetryOptions,
  ) {
    this.#login = login;
    this.#callbacks = callbacks;
    this.#history = history;
    this.#options = options;
    this.kind = key.kind;
    this.operation = operation;
    this.startedAt = options.monotonic();
    this.tried = [key];
    this.#rejections = [{ key, rejectedAt: this.startedAt }];
    if (verdict === 'rejected') this.rejected.push(key);
  }

  get isOverdue(): boolean {
    return this.#options.monotonic() >= (this.#callbacks.patience?.deadline ?? Number.POSITIVE_INFINITY);
  }

  /** Retries with the key. Returns whether the retry is over: the response is not another 403. */
  async tryKey(key: UsableKey): Promise<boolean> {
    const use: MutableUse = { key, operation: this.operation, sentAt: this.#options.monotonic() };
    this.tried.push(key);
    let verdict: Verdict = 'unclear';
    try {
      this.response = await this.#callbacks.send(use);
      verdict = this.#callbacks.judge(this.response);
    } finally {
      this.#options.observe();
      if (verdict === 'accepted') this.#recordAccepted(use);
      else this.#recordFailure(use, verdict);
    }
    return verdict === 'accepted' || verdict === 'unclear';
  }

  #recordAccepted(use: KeyUse): void {
    const isFirst = this.#history.recordReplaced(this.#rejections, this.operation);
    this.#options.recordAccepted(use);
    if (!isFirst) return;
    const to = use.key.version > this.#rejections[0].key.version ? 'newer' : 'older';
    this.#options.metrics.keyFallback(this.#login, this.kind, to);
  }

  #recordFailure(use: KeyUse, verdict: Verdict): void {
    if (verdict === 'rejected') this.rejected.push(use.key);
    if (verdict === 'rejected' || verdict === 'clock-skew') {
      const rejectedAt = this.#options.monotonic();
      this.#rejections.push({ key: use.key, rejectedAt });
      this.#history.recordRejected(use, rejectedAt, 'retryable', verdict === 'rejected');
    }
    // A request that ran out of time says nothing about the key, which other requests may need.
    if (verdict !== 'unclear' || !this.isOverdue)
      this.#history.recordFailedFallback(use, this.#options.monotonic());
  }
}
