import type { CacheConfig } from '../config/schema.ts';
import { ProxyError } from '../errors.ts';
import type { BackoffOptions } from '../util/backoff.ts';
import { type SetTimer, setTimer } from '../util/timer.ts';
import { BackgroundRefresh } from './background-refresh.ts';
import { type CachedRing, CacheStore } from './cache-store.ts';
import { causeOf, keyMissing, nameOf, SourceUnavailable, sourceStateOf } from './errors.ts';
import { FetchQueue } from './fetch-queue.ts';
import type { CacheResult, KeyRing, KeySource, KeySourceObserver, LoginRef } from './key-source.ts';
import { Recovery } from './recovery.ts';

export interface KeyCacheOptions extends BackoffOptions {
  readonly events: KeySourceObserver;
  /** Label of `key_fetch_duration_seconds`. */
  readonly sourceName: string;
  /** The process's timers unless given. */
  readonly setTimer?: SetTimer;
}

type CacheLookup =
  | { readonly result: Extract<CacheResult, 'fresh' | 'stale' | 'fetched'>; readonly ring: KeyRing }
  | { readonly result: Extract<CacheResult, 'missing' | 'failed'>; readonly error: ProxyError };

/**
 * Key rings in memory, so that signing neither waits for the key source nor depends on it. Fresh for `ttl`; then
 * stale-while-revalidate; and stale-if-error while the source fails.
 */
export class KeyCache {
  readonly #source: KeySource;
  readonly #options: KeyCacheOptions;
  readonly #store: CacheStore;
  readonly #fetches: FetchQueue<KeyRing | undefined>;
  readonly #recovery: Recovery;
  readonly #background: BackgroundRefresh;
  #succeededAt = Number.NEGATIVE_INFINITY;
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(source: KeySource, settings: CacheConfig, options: KeyCacheOptions) {
    this.#source = source;
    this.#options = options;
    this.#store = new CacheStore(settings, options);
    this.#fetches = new FetchQueue((login) => this.#read(login), options.monotonic);
    this.#recovery = new Recovery({
      setTimer,
      ...options,
      read: (login) => this.#refreshInBackground(login),
      outdated: () => this.#store.outdated(),
    });
    this.#background = new BackgroundRefresh({
      setTimer,
      ...options,
      read: (login) => this.#refreshInBackground(login),
      due: (limit) => this.#dueInBackground(limit),
    });
  }

  /**
   * The keys of a login, from the cache if possible.
   *
   * @throws ProxyError `key-missing`; `key-source-unavailable` if nothing usable is cached
   */
  async get(login: LoginRef): Promise<KeyRing> {
    const lookup = this.#fromCache(login) ?? (await this.#fromSource(login));
    this.#options.events.keyLookup(login.environment, lookup.result);
    if ('error' in lookup) throw lookup.error;
    return lookup.ring;
  }

  /**
   * Reads the source past the cache, because the gateway has just rejected a key. Falls back to the cached ring
   * if the source fails.
   *
   * @returns `undefined` if the login has no keys anymore
   * @throws ProxyError `key-source-unavailable` if nothing usable is cached
   */
  async refresh(login: LoginRef): Promise<KeyRing | undefined> {
    try {
      return await this.#fetches.fetchFresh(login, 'foreground');
    } catch (error) {
      const known = this.#store.lookup(login);
      if (known === undefined) throw errorFor(error, login);
      return known === 'missing' ? undefined : known.ring;
    }
  }

  /** The cached keys of a login. Neither reads the source nor counts as use. */
  cached(login: LoginRef): KeyRing | undefined {
    return this.#store.peek(login);
  }

  /** The rings that may be used, the last used first. Does not count as use. */
  cachedRings(): Iterable<CachedRing> {
    return this.#store.cachedRings();
  }

  /** Whether at least one login could be served if the source failed now. */
  hasUsableEntries(): boolean {
    return this.#store.hasUsableEntries();
  }

  /** Copies the entries of another cache of the same secrets. */
  adopt(other: KeyCache): void {
    this.#store.adopt(other.#store);
  }

  /** Starts refreshing the rings in use in the background, and removing unused ones. */
  start(): void {
    this.#background.start();
  }

  stop(): void {
    this.#recovery.stop();
    this.#background.stop();
  }

  /** Reports all rings as replaced: a reload changed the source. In-flight requests may still use them. */
  retire(): void {
    this.#store.retire();
  }

  /** While the source fails, only {@link Recovery} reads it in the background. */
  #dueInBackground(limit: number): readonly LoginRef[] {
    this.#store.dropUnused();
    return this.#recovery.failing ? [] : this.#store.dueInBackground(limit);
  }

  #fromCache(login: LoginRef): CacheLookup | undefined {
    const known = this.#store.lookup(login);
    if (known === undefined) return undefined;
    if (known === 'missing') return { result: 'missing', error: keyMissing(login) };
    if (known.fresh) return { result: 'fresh', ring: known.ring };
    if (known.refreshDue) void this.#refreshInBackground(login);
    return { result: 'stale', ring: known.ring };
  }

  async #fromSource(login: LoginRef): Promise<CacheLookup> {
    try {
      const ring = await this.#fetches.fetch(login, 'foreground');
      if (ring === undefined) return { result: 'missing', error: keyMissing(login) };
      return { result: 'fetched', ring };
    } catch (error) {
      return { result: 'failed', error: errorFor(error, login) };
    }
  }

  async #refreshInBackground(login: LoginRef): Promise<void> {
    await this.#fetches.fetch(login, 'background').catch(() => {
      // Counted and logged where it happened; the cached ring stays.
    });
  }

  /** Reads the source and caches the result. Called by {@link FetchQueue}, once at a time per login. */
  async #read(login: LoginRef): Promise<KeyRing | undefined> {
    const startedAt = this.#options.monotonic();
    const ring = await this.#readSource(login, startedAt);
    return this.#store.store(login, ring, startedAt);
  }

  async #readSource(login: LoginRef, startedAt: number): Promise<KeyRing | undefined> {
    const { monotonic, events, sourceName } = this.#options;
    try {
      const ring = await this.#source.read(login);
      this.#recordSuccess(startedAt);
      return ring;
    } catch (error) {
      this.#store.recordFailure(login);
      this.#recordFailure(login, error, startedAt);
      throw error;
    } finally {
      events.keyFetched(sourceName, (monotonic() - startedAt) / 1000);
    }
  }

  /** Ignores a read that began before another one failed: the source may have failed since. */
  #recordSuccess(startedAt: number): void {
    if (startedAt < this.#failedAt) return;
    this.#succeededAt = this.#options.monotonic();
    this.#options.events.keySourceUp(true);
    this.#recovery.recordSuccess();
  }

  /** A source that denies one login is up. Ignores a read that hung if the source has responded since. */
  #recordFailure(login: LoginRef, error: unknown, startedAt: number): void {
    const state = sourceStateOf(error);
    if (state === 'up') {
      this.#recordSuccess(startedAt);
      this.#options.events.keyProblem(`key read failed: ${causeOf(error)}`, login);
    }
    if (state !== 'down' || startedAt < this.#succeededAt) return;
    this.#failedAt = this.#options.monotonic();
    this.#options.events.keySourceUp(false, causeOf(error));
    this.#recovery.recordFailure(login);
  }
}

/** The message of an unexpected error may hold a secret, so only its name is kept. */
function errorFor(error: unknown, login: LoginRef): ProxyError {
  if (error instanceof ProxyError) return error;
  return new SourceUnavailable(
    login,
    new Error(`unexpected error in the key source: ${nameOf(error)}`),
    'down',
  );
}
