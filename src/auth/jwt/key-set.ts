import {
  type CryptoKey,
  createLocalJWKSet,
  errors,
  type FlattenedJWSInput,
  type JWK,
  type JWSHeaderParameters,
} from 'jose';
import { Backoff, type BackoffOptions } from '../../util/backoff.ts';
import type { SetTimer } from '../../util/clock.ts';
import { SingleFlight } from '../../util/promises.ts';
import { JwtError } from './jwt-error.ts';

/** Milliseconds between refreshes that a token with an unknown key may cause. */
const forcedRefreshInterval = 30_000;
/** Tokens that wait for keys at the same time. Their clients are not known yet, and use memory. */
const maxWaiting = 100;
/** Milliseconds until the next attempt after a failed one. */
const retryRange = { initial: 1000, max: 60_000 };

export interface KeySetOptions extends BackoffOptions {
  /** Fetches the public keys. Rejects with an error whose message an operator may read. */
  readonly load: (stopped: AbortSignal) => Promise<readonly JWK[]>;
  /** Milliseconds between refreshes in the background. */
  readonly refreshInterval: number;
  /** Milliseconds for which the keys are used after their last successful fetch. */
  readonly maxStale: number;
  readonly setTimer: SetTimer;
  readonly observer: {
    keysFetched(): void;
    /** @param cause for the log */
    keyFetchFailed(cause: string): void;
  };
}

/**
 * The public keys of one issuer: cached, refreshed in the background, and once in 30 s also for a token with an
 * unknown key, since an issuer may sign with a new key at once. Keys stay in use while they cannot be fetched.
 */
export class KeySet {
  readonly #options: KeySetOptions;
  readonly #backoff: Backoff;
  #findKey: ReturnType<typeof createLocalJWKSet> | undefined;
  #fetchedAt = 0;
  #problem: string | undefined;
  readonly #loads = new SingleFlight<void>();
  #forcedAt = Number.NEGATIVE_INFINITY;
  #waiting = 0;
  #cancelTimer: (() => void) | undefined;
  readonly #stopped = new AbortController();

  /** @param previous has keys of the same issuer, which are used until others are fetched */
  constructor(options: KeySetOptions, previous?: KeySet) {
    this.#options = options;
    this.#backoff = new Backoff(retryRange, options.random);
    if (previous === undefined) return;
    this.#findKey = previous.#findKey;
    this.#fetchedAt = previous.#fetchedAt;
    this.#problem = previous.#problem;
    this.#forcedAt = previous.#forcedAt;
  }

  /** Whether there are keys that may be used now. */
  get available(): boolean {
    const { monotonic, maxStale } = this.#options;
    return this.#findKey !== undefined && monotonic() - this.#fetchedAt <= maxStale;
  }

  /** Why the last fetch failed; `undefined` if it did not. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Fetches the keys now, and then at intervals. Does not wait. */
  refresh(): void {
    void this.#load();
  }

  /** Also ends a fetch in flight, which would keep the process from exiting. */
  stop(): void {
    this.#stopped.abort();
    this.#cancelTimer?.();
  }

  /**
   * The key for the signature of a token.
   *
   * @throws JwtError `jwt-key`; `jwt-keys-unavailable` if a fetch of the keys failed and could have brought the key, or
   *   if too many tokens wait for one
   */
  async find(header: JWSHeaderParameters, token: FlattenedJWSInput): Promise<CryptoKey> {
    const lookUp = (): Promise<CryptoKey | undefined> => this.#lookUp(header, token);
    const key = (await lookUp()) ?? (await this.#waitFor(lookUp));
    if (key !== undefined) return key;
    throw new JwtError(this.#problem !== undefined || !this.available ? 'jwt-keys-unavailable' : 'jwt-key');
  }

  async #lookUp(header: JWSHeaderParameters, token: FlattenedJWSInput): Promise<CryptoKey | undefined> {
    if (!this.available) return undefined;
    try {
      return await this.#findKey?.(header, token);
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey) return undefined;
      // More than one key fits, or the key cannot be used.
      throw new JwtError('jwt-key');
    }
  }

  /** A fetch in flight may have begun before the issuer had the key: then another one follows. */
  async #waitFor<T>(lookUp: () => Promise<T>): Promise<T | undefined> {
    if (this.#waiting >= maxWaiting) throw new JwtError('jwt-keys-unavailable');
    this.#waiting += 1;
    try {
      await this.#loads.running;
      const found = await lookUp();
      if (found !== undefined) return found;
      if (this.#loads.running === undefined && !this.#mayForce()) return undefined;
      await this.#load();
      return await lookUp();
    } finally {
      this.#waiting -= 1;
    }
  }

  #mayForce(): boolean {
    const now = this.#options.monotonic();
    if (now - this.#forcedAt < forcedRefreshInterval) return false;
    this.#forcedAt = now;
    return true;
  }

  /** Never rejects. */
  #load(): Promise<void> {
    return this.#loads.run(() => this.#loadOnce());
  }

  async #loadOnce(): Promise<void> {
    const { load, monotonic, observer, refreshInterval, setTimer } = this.#options;
    const { signal } = this.#stopped;
    this.#cancelTimer?.();
    const startedAt = monotonic();
    const result = await load(signal)
      .then((keys) => createLocalJWKSet({ keys: [...keys] }))
      .catch((error: unknown) => (error instanceof Error ? error.message : 'unknown error'));
    if (signal.aborted) return;
    if (typeof result === 'string') {
      this.#problem = result;
      this.#backoff.recordFailure(monotonic());
      observer.keyFetchFailed(result);
    } else {
      this.#findKey = result;
      this.#fetchedAt = startedAt;
      this.#problem = undefined;
      this.#backoff.reset();
      observer.keysFetched();
    }
    const delay = this.#problem === undefined ? refreshInterval : this.#backoff.remaining(monotonic());
    this.#cancelTimer = setTimer(() => this.refresh(), delay);
  }
}
