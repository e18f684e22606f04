import type { CacheConfig } from '../config/schema.ts';
import { ProxyError } from '../errors.ts';
import { type SetTimer, setTimer } from '../util/timer.ts';
import { BackgroundRefresh } from './background-refresh.ts';
import { CacheStore } from './cache-store.ts';
import { causeOf, keyMissing, nameOf, SourceUnavailable, sourceStateOf } from './errors.ts';
import { FetchQueue } from './fetch-queue.ts';
import type { CacheResult, KeyRing, KeySource, KeySourceObserver, LoginRef } from './key-source.ts';
import { Recovery } from './recovery.ts';

export interface KeyCacheOptions {
  /** Monotonic, milliseconds. */
  readonly monotonic: () => number;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly events: KeySourceObserver;
  /** Label of `key_fetch_duration_seconds`. */
  readonly sourceName: string;
  /** Timers of the process unless a test brings its own. */
  readonly setTimer?: SetTimer;
}

type CacheLookup =
  | { readonly result: Extract<CacheResult, 'fresh' | 'stale' | 'fetched'>; readonly ring: KeyRing }
  | { readonly result: Extract<CacheResult, 'missing' | 'failed'>; readonly refusal: ProxyError };

/**
 * Key rings kept in memory, so that signing neither waits for the key source nor depends on it: fresh for a
 * while, then served while one refresh runs in the background, and for long while the source fails.
 */
export class KeyCache {
  readonly #source: KeySource;
  readonly #ports: KeyCacheOptions;
  readonly #store: CacheStore;
  readonly #fetches: FetchQueue<KeyRing | undefined>;
  readonly #recovery: Recovery;
  readonly #background: BackgroundRefresh;
  #answeredAt = Number.NEGATIVE_INFINITY;
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(source: KeySource, settings: CacheConfig, ports: KeyCacheOptions) {
    this.#source = source;
    this.#ports = ports;
    this.#store = new CacheStore(settings, ports);
    this.#fetches = new FetchQueue((address) => this.#read(address), ports.monotonic);
    this.#recovery = new Recovery({
      setTimer,
      ...ports,
      read: (address) => this.#refreshInBackground(address),
      outdated: () => this.#store.outdated(),
    });
    this.#background = new BackgroundRefresh({
      setTimer,
      ...ports,
      read: (address) => this.#refreshInBackground(address),
      due: (limit) => this.#dueInBackground(limit),
    });
  }

  /**
   * The keys of a login: from memory where they can be, otherwise from the source.
   *
   * @throws Refusal `key-missing`, or `key-source-unavailable` when nothing is held that may still be used.
   */
  async get(address: LoginRef): Promise<KeyRing> {
    const taken = this.#fromMemory(address) ?? (await this.#fromSource(address));
    this.#ports.events.keyLookup(address.environment, taken.result);
    if ('refusal' in taken) throw taken.refusal;
    return taken.ring;
  }

  /**
   * The keys as the source has them now, past what is held: for a key that the gateway has just refused.
   * While the source fails it is the ring held; `undefined`: the login has no keys any more.
   *
   * @throws Refusal `key-source-unavailable` when nothing is held that may still be used.
   */
  async refresh(address: LoginRef): Promise<KeyRing | undefined> {
    try {
      return await this.#fetches.fetchFresh(address, 'foreground');
    } catch (error) {
      const known = this.#store.lookup(address);
      if (known === undefined) throw errorFor(error, address);
      return known === 'missing' ? undefined : known.ring;
    }
  }

  /** Whether some login's keys could be used if the source failed from now on. */
  hasUsableEntries(): boolean {
    return this.#store.hasUsableEntries();
  }

  /** Takes over what another cache of the same secrets holds. */
  adopt(other: KeyCache): void {
    this.#store.adopt(other.#store);
  }

  /** Begins to read rings in use again in the background, and to drop those that are not in use. */
  start(): void {
    this.#background.start();
  }

  /** Ends what runs in the background. */
  stop(): void {
    this.#recovery.stop();
    this.#background.stop();
  }

  /** None of its rings is in use any more: keys are read from another place. Requests in flight may still use them. */
  retire(): void {
    this.#store.retire();
  }

  /** While the source fails the recovery alone decides when it is read. */
  #dueInBackground(limit: number): readonly LoginRef[] {
    this.#store.dropUnused();
    return this.#recovery.failing ? [] : this.#store.dueInBackground(limit);
  }

  #fromMemory(address: LoginRef): CacheLookup | undefined {
    const known = this.#store.lookup(address);
    if (known === undefined) return undefined;
    if (known === 'missing') return { result: 'missing', refusal: keyMissing(address) };
    if (known.fresh) return { result: 'fresh', ring: known.ring };
    if (known.refreshDue) void this.#refreshInBackground(address);
    return { result: 'stale', ring: known.ring };
  }

  async #fromSource(address: LoginRef): Promise<CacheLookup> {
    try {
      const ring = await this.#fetches.fetch(address, 'foreground');
      if (ring === undefined) return { result: 'missing', refusal: keyMissing(address) };
      return { result: 'fetched', ring };
    } catch (error) {
      return { result: 'failed', refusal: errorFor(error, address) };
    }
  }

  async #refreshInBackground(address: LoginRef): Promise<void> {
    await this.#fetches.fetch(address, 'background').catch(() => {
      // Counted and reported where it happened; the ring that is held stays.
    });
  }

  /** One read of the source, remembered. {@link FetchQueue} sees to it that an address has one at a time. */
  async #read(address: LoginRef): Promise<KeyRing | undefined> {
    const begun = this.#ports.monotonic();
    const ring = await this.#ask(address, begun);
    return this.#store.store(address, ring, begun);
  }

  async #ask(address: LoginRef, begun: number): Promise<KeyRing | undefined> {
    const { monotonic, events, sourceName } = this.#ports;
    try {
      const ring = await this.#source.read(address);
      this.#answered(begun);
      return ring;
    } catch (error) {
      this.#store.recordFailure(address);
      this.#noteFailure(address, error, begun);
      throw error;
    } finally {
      events.keyFetched(sourceName, (monotonic() - begun) / 1000);
    }
  }

  /** A read that began before another failed says nothing of a source that fails since. */
  #answered(begun: number): void {
    if (begun < this.#failedAt) return;
    this.#answeredAt = this.#ports.monotonic();
    this.#ports.events.keySourceUp(true);
    this.#recovery.answered();
  }

  /** A source that denies one login is up. A read that hung says nothing of a source that answered since. */
  #noteFailure(address: LoginRef, error: unknown, begun: number): void {
    const state = sourceStateOf(error);
    if (state === 'up') {
      this.#answered(begun);
      this.#ports.events.keyProblem(`the keys cannot be read: ${causeOf(error)}`, address);
    }
    if (state !== 'down' || begun < this.#answeredAt) return;
    this.#failedAt = this.#ports.monotonic();
    this.#ports.events.keySourceUp(false, causeOf(error));
    this.#recovery.failed(address);
  }
}

/** Of an error that is no refusal only the name is kept: a source may not have looked what is in it. */
function errorFor(error: unknown, address: LoginRef): ProxyError {
  if (error instanceof ProxyError) return error;
  return new SourceUnavailable(address, new Error(`the key source threw ${nameOf(error)}`), 'down');
}
