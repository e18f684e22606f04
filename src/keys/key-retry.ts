import type { KeyKind } from '../oauth1/methods.ts';
import type { KeyHistory, KeyUse, MutableUse } from './key-history.ts';
import type { LoginRef, UsableKey } from './key-source.ts';

export interface KeyFallbackObserver {
  /** A request that the gateway rejected was signed again with another version and accepted. */
  keyFallback(login: LoginRef, kind: KeyKind, to: 'newer' | 'older'): void;
}

export interface KeyRetryOptions {
  readonly meter: KeyFallbackObserver;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
}

/** What a response says about the key. `clock-skew`: a 403 that has another cause. `unclear`: nothing. */
export type Verdict = 'accepted' | 'rejected' | 'clock-skew' | 'unclear';

/** How a rejected request is sent again. */
export interface KeyRetryCallbacks<Reply> {
  /** Signs with the key of the use, sends, and notes when. */
  readonly send: (use: MutableUse) => Promise<Reply>;
  readonly judge: (reply: Reply) => Verdict;
  /** Whether the time for the whole exchange is over; never unless given. */
  readonly isOverdue?: () => boolean;
}

/** One rejected request: which keys were tried, and what came of it. */
export class KeyRetry<Reply> {
  readonly kind: KeyKind;
  readonly operation: string;
  readonly tried: UsableKey[];
  /** Monotonic, milliseconds. */
  readonly startedAt: number;
  /** Those of them that were rejected, as far as a response tells. */
  readonly rejected: UsableKey[] = [];
  reply: Reply | undefined;
  readonly #address: LoginRef;
  readonly #resending: KeyRetryCallbacks<Reply>;
  readonly #history: KeyHistory;
  readonly #ports: KeyRetryOptions;

  constructor(
    address: LoginRef,
    { key, operation }: KeyUse,
    verdict: Verdict,
    resending: KeyRetryCallbacks<Reply>,
    history: KeyHistory,
    ports: KeyRetryOptions,
  ) {
    this.#address = address;
    this.#resending = resending;
    this.#history = history;
    this.#ports = ports;
    this.kind = key.kind;
    this.operation = operation;
    this.startedAt = ports.monotonic();
    this.tried = [key];
    if (verdict === 'rejected') this.rejected.push(key);
  }

  /** Whether there is no time left to send again. */
  get isOverdue(): boolean {
    return this.#resending.isOverdue?.() ?? false;
  }

  /** Sends with the key. Gives whether the response is the answer, rather than another 403. */
  async isOverWith(key: UsableKey): Promise<boolean> {
    const use: MutableUse = { key, operation: this.operation, sentAt: this.#ports.monotonic() };
    const before = [...this.tried];
    this.tried.push(key);
    let verdict: Verdict = 'unclear';
    try {
      this.reply = await this.#resending.send(use);
      verdict = this.#resending.judge(this.reply);
    } finally {
      if (verdict === 'accepted') this.#recordAccepted(use, before);
      else this.#recordFruitless(use, verdict);
    }
    return verdict === 'accepted' || verdict === 'unclear';
  }

  #recordAccepted(use: KeyUse, before: readonly UsableKey[]): void {
    const [rejected = use.key] = before;
    const now = this.#ports.monotonic();
    const isFirst = this.#history.recordReplaced(before, this.operation, this.startedAt, now);
    this.#history.recordAccepted(use);
    if (!isFirst) return;
    const to = use.key.version > rejected.version ? 'newer' : 'older';
    this.#ports.meter.keyFallback(this.#address, this.kind, to);
  }

  #recordFruitless(use: KeyUse, verdict: Verdict): void {
    if (verdict === 'rejected') this.rejected.push(use.key);
    if (verdict === 'rejected' || verdict === 'clock-skew') {
      this.#history.recordRejected(use, this.#ports.monotonic(), 'bold', verdict === 'rejected');
    }
    // That a request had no time left says nothing about the key, which others may need.
    if (verdict !== 'unclear' || !this.isOverdue) this.#history.recordFruitless(use);
  }
}
