import type { CacheConfig } from '../config/schema.ts';
import { ProxyError } from '../errors.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import type { BackoffOptions } from '../util/backoff.ts';
import { type SetTimer, setTimer } from '../util/clock.ts';
import { endsWithin } from '../util/promises.ts';
import { currentSpan, inSpan } from '../util/trace.ts';
import { BackgroundRefresh } from './background-refresh.ts';
import { type CachedRing, CacheStore } from './cache-store.ts';
import { DeniedLogins } from './denied-logins.ts';
import { failedRead, keyMissing, SourceUnavailable } from './errors.ts';
import { FetchQueue } from './fetch-queue.ts';
import type { CacheResult, KeySource, KeySourceObserver } from './key-source.ts';
import { type LoginRef, loginRefString } from './login-ref.ts';
import type { KeyRing, UsableKey } from './ring.ts';

interface KeyCacheOptions extends BackoffOptions {
  readonly events: KeySourceObserver;
  /** Label of `key_fetch_duration_seconds`. */
  readonly sourceName: string;
  /** The source was unavailable, and responds again. */
  readonly recovered?: () => void;
  /** The process's timers unless given. */
  readonly setTimer?: SetTimer;
}

/** Milliseconds that a request with cached keys waits for a failing source. */
const failingWait = 1_000;

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
  readonly #looks: FetchQueue<KeyRing | undefined>;
  readonly #denied: DeniedLogins;
  readonly #background: BackgroundRefresh;
  #succeededAt = Number.NEGATIVE_INFINITY;
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(source: KeySource, settings: CacheConfig, options: KeyCacheOptions) {
    this.#source = source;
    this.#options = options;
    this.#store = new CacheStore(settings, options);
    this.#fetches = new FetchQueue((login) => this.#read(login), options.monotonic);
    this.#looks = new FetchQueue((login) => this.#look(login), options.monotonic);
    this.#denied = new DeniedLogins({
      setTimer,
      ...options,
      limit: settings.maxEntries,
      read: (login) => this.#refreshInBackground(login),
      released: (logins) => this.#refreshReleased(logins),
      changed: (logins, cause) => options.events.loginsDenied(logins, cause),
    });
    this.#background = new BackgroundRefresh({
      setTimer,
      ...options,
      read: (login) => this.#refreshInBackground(login),
      due: (limit) => this.#dueInBackground(limit),
      outdated: () => this.#store.outdated(),
    });
  }

  /**
   * The keys of a login, from the cache if possible.
   *
   * @param deadline until when to wait for the source; monotonic, milliseconds
   * @param kind of the key that is needed: if the ring lacks it, older versions are searched for it once
   * @throws ProxyError `key-missing`; `key-source-unavailable` if nothing usable is cached
   */
  async get(login: LoginRef, deadline?: number, kind?: KeyKind): Promise<KeyRing> {
    const lookup = this.#fromCache(login) ?? (await this.#fromSource(login, deadline));
    this.#options.events.keyLookup(login.environment, lookup.result);
    currentSpan()?.add({ 'countersign.key.lookup': lookup.result });
    if ('error' in lookup) throw lookup.error;
    if (kind === undefined || lookup.ring.some((one) => one.kind === kind)) return lookup.ring;
    const search = this.#store.requestSearch(login);
    return search === 'no' ? lookup.ring : this.#search(login, search, deadline);
  }

  /** Until older versions were searched, it is not known that the login lacks a kind of key. */
  async #search(
    login: LoginRef,
    when: 'now' | 'later',
    deadline = Number.POSITIVE_INFINITY,
  ): Promise<KeyRing> {
    if (when === 'later') {
      const cause = new Error('the last read of the key source failed; waiting to read it again');
      throw new SourceUnavailable(login, cause, 'unknown');
    }
    const ring = await this.#by(deadline, login, this.#fetches.fetchFresh(login, 'foreground'));
    if (ring === undefined) throw keyMissing(login);
    return ring;
  }

  /**
   * Reads the keys of a login past the cache: the current version, and the other ones only if it changed. Falls back to
   * the cached ring if the source fails; while it does, that is after a second: the read continues, and what it finds is
   * cached.
   *
   * @returns `undefined` if the login has no keys anymore
   * @throws ProxyError `key-source-unavailable` if nothing usable is cached
   */
  async look(login: LoginRef): Promise<KeyRing | undefined> {
    const isPatient = !this.#background.failing || this.#store.peek(login) === undefined;
    const deadline = isPatient ? Number.POSITIVE_INFINITY : this.#options.monotonic() + failingWait;
    try {
      return await this.#by(deadline, login, this.#looks.fetchFresh(login, 'foreground'));
    } catch (error) {
      const known = this.#store.lookup(login);
      if (known === undefined) throw error;
      return known === 'missing' ? undefined : known.ring;
    }
  }

  /** Whether the source was unavailable when last read. */
  isFailing(): boolean {
    return this.#background.failing;
  }

  /** The gateway accepted a request signed with this key: it stays as long as the source has it. */
  keep(login: LoginRef, key: UsableKey): void {
    this.#store.keep(login, key);
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
    this.#denied.adopt(other.#denied);
  }

  /** Starts refreshing the rings in use in the background, and removing unused ones. */
  start(): void {
    this.#background.start();
  }

  stop(): void {
    this.#denied.stop();
    this.#background.stop();
  }

  /** Reports all rings as replaced: a reload changed the source. In-flight requests may still use them. */
  retire(): void {
    this.#store.retire();
  }

  /** While the source fails, only the probes of {@link BackgroundRefresh} read it in the background. */
  #dueInBackground(limit: number): readonly LoginRef[] {
    this.#store.dropUnused();
    this.#options.events.cachedKeysExpire(this.#store.secondsLeft());
    return this.#background.failing ? [] : this.#store.dueInBackground(limit);
  }

  /** Uncached ones are read by the next request. */
  #refreshReleased(logins: readonly LoginRef[]): void {
    const released = new Set(logins.map(loginRefString));
    this.#background.refresh(this.#store.outdated().filter((login) => released.has(loginRefString(login))));
  }

  #fromCache(login: LoginRef): CacheLookup | undefined {
    const known = this.#store.lookup(login);
    if (known === undefined) return undefined;
    if (known === 'missing') return { result: 'missing', error: keyMissing(login) };
    if (known.fresh) return { result: 'fresh', ring: known.ring };
    if (known.refreshDue) void this.#refreshInBackground(login);
    return { result: 'stale', ring: known.ring };
  }

  /** The result, if it comes by the deadline. The read continues, since its result is cached. */
  async #by<T>(deadline: number, login: LoginRef, read: Promise<T>): Promise<T> {
    if (deadline === Number.POSITIVE_INFINITY) return read;
    const { monotonic, setTimer } = this.#options;
    if (await endsWithin(deadline - monotonic(), read, setTimer)) return read;
    const cause = new Error('the key source did not respond in the time of the request');
    throw new SourceUnavailable(login, cause, 'unknown');
  }

  async #fromSource(login: LoginRef, deadline = Number.POSITIVE_INFINITY): Promise<CacheLookup> {
    try {
      const ring = await this.#by(deadline, login, this.#fetches.fetch(login, 'foreground'));
      if (ring === undefined) return { result: 'missing', error: keyMissing(login) };
      return { result: 'fetched', ring };
    } catch (error) {
      if (!(error instanceof ProxyError)) throw error;
      return { result: 'failed', error };
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
    const isSearch = this.#store.isSearchDue(login);
    const known = this.#store.known(login);
    const reading = await this.#reading(login, () => this.#source.read(login, known, isSearch));
    return this.#store.store(login, reading, startedAt, isSearch);
  }

  /** Called by {@link FetchQueue}, once at a time per login. */
  async #look(login: LoginRef): Promise<KeyRing | undefined> {
    const known = this.#store.currentOf(login);
    if (known !== undefined) {
      const current = await this.#reading(login, () => this.#source.readCurrent(login));
      if (current === known) return this.#store.peek(login);
    }
    return await this.#fetches.fetchFresh(login, 'foreground');
  }

  async #reading<T>(login: LoginRef, read: () => Promise<T>): Promise<T> {
    const blocked = this.#denied.blockOf(login);
    if (blocked !== undefined) {
      this.#store.recordFailure(login);
      throw new SourceUnavailable(login, new Error(blocked), 'unknown');
    }
    const { monotonic, events, sourceName } = this.#options;
    const startedAt = monotonic();
    try {
      const result = await inSpan('key source read', (span) => {
        span?.add({ 'countersign.key.source': sourceName });
        return read();
      });
      this.#recordSuccess(startedAt);
      this.#denied.permit(login);
      return result;
    } catch (error) {
      const failure = failedRead(error, login);
      this.#store.recordFailure(login);
      this.#recordFailure(login, failure, startedAt);
      throw failure;
    } finally {
      events.keyFetched(sourceName, (monotonic() - startedAt) / 1000);
    }
  }

  /** Ignores a read that began before another one failed: the source may have failed since. */
  #recordSuccess(startedAt: number): void {
    if (startedAt < this.#failedAt) return;
    this.#succeededAt = this.#options.monotonic();
    this.#options.events.keySourceUp(true);
    if (this.#background.failing) this.#options.recovered?.();
    this.#background.recordSuccess();
  }

  /** Ignores a read that hung if the source has responded since. */
  #recordFailure(login: LoginRef, { source, problem }: SourceUnavailable, startedAt: number): void {
    const { events, monotonic } = this.#options;
    if (source === 'up' || source === 'denied') {
      this.#recordSuccess(startedAt);
      const isNew = source === 'up' || this.#denied.deny(login, problem);
      if (isNew) events.keyProblem(`key read failed: ${problem}`, login);
    }
    if (source === 'up') this.#denied.permit(login);
    if (source !== 'down' || startedAt < this.#succeededAt) return;
    this.#failedAt = monotonic();
    events.keySourceUp(false, problem);
    this.#background.recordFailure(login);
  }
}
