import { LRUCache } from 'lru-cache';
import type { CacheConfig } from '../config/schema.ts';
import { Backoff, type BackoffOptions } from '../util/backoff.ts';
import { findEqualKey, sameContent } from './key.ts';
import type { KeyReading, KeySourceObserver, LostKey, NoKeys, RingRemoval } from './key-source.ts';
import { type LoginRef, loginRefString } from './login-ref.ts';
import { type KeyRing, type UsableKey, withAccepted } from './ring.ts';

/** Up to a tenth of the TTL is subtracted, so that keys that were read together are not refreshed together. */
const ttlJitter = 0.1;
/** Rings used within the given number of milliseconds are refreshed when the source is back. */
const recentUse = 600_000;
/** A ring in use that no request has refreshed is refreshed in the background after this many times its TTL. */
const backgroundAge = 5;
/** Milliseconds from when a background refresh is due until it is late: logins are read in batches. */
const backgroundGrace = 10_000;
/** Milliseconds for which a source that lost logins is believed that another one has no keys. */
const doubtfulTtl = 1000;
/** Milliseconds between failing refreshes. */
const refreshBackoff = { initial: 1000, max: 60_000 };

interface CacheStoreOptions extends BackoffOptions {
  readonly events: Pick<KeySourceObserver, 'keyRingUpdated' | 'loginsNotFound'>;
}

interface CacheHit {
  readonly ring: KeyRing;
  readonly fresh: boolean;
  /** Not fresh, and not backing off after a failed refresh. */
  readonly refreshDue: boolean;
}

export interface CachedRing {
  readonly login: LoginRef;
  readonly ring: KeyRing;
  /** Now. A function, since there may be thousands of rings and only some of them are shown. */
  readonly times: () => CacheTimes;
}

/** When a ring was and is read. Monotonic, in milliseconds. */
interface CacheTimes {
  readonly readAt: number;
  /** Since when it is outdated, if it could not be read again. */
  readonly staleSince: number | undefined;
  /** When a request reads it again; `undefined`: the next one does. */
  readonly nextRefreshAt: number | undefined;
}

/** Of a kind of key that the ring lacks, in older versions: one search finds what there is. */
type Search = 'due' | 'done';

interface CacheEntry {
  readonly login: LoginRef;
  ring: KeyRing;
  /** Of its {@link KeyReading}. */
  current: string;
  search?: Search | undefined;
  readAt: number;
  freshUntil: number;
  usedAt: number;
}

/** Cached key rings and missing logins with their lifetimes, in bounded LRU caches. Reads nothing itself. */
export class CacheStore {
  readonly #settings: CacheConfig;
  readonly #options: CacheStoreOptions;
  readonly #rings: LRUCache<string, CacheEntry>;
  /** Until when a login is known to have no keys. A separate cache, so that unknown logins evict no ring. */
  readonly #missing: LRUCache<string, number>;
  /** By name: rings whose last refresh failed. */
  readonly #failed: Backoff;
  /** By name: the keys that the gateway accepted last, also of rings that are cached no more. */
  readonly #accepted: LRUCache<string, readonly UsableKey[]>;
  /** Names of rings whose login the source does not know, though it did not delete their keys. */
  readonly #notFound = new Set<string>();
  #retired = false;

  constructor(settings: CacheConfig, options: CacheStoreOptions) {
    this.#settings = settings;
    this.#options = options;
    // With `max`, the library would allocate memory for all entries at once.
    const bound = { maxSize: settings.maxEntries, sizeCalculation: () => 1 };
    this.#missing = new LRUCache(bound);
    this.#accepted = new LRUCache(bound);
    this.#failed = new Backoff(refreshBackoff, options.random, settings.maxEntries);
    this.#rings = new LRUCache({
      ...bound,
      dispose: ({ login }, name, reason) => {
        if (reason === 'evict') this.#notify(login, undefined, 'evicted');
        this.#recordFound(name);
      },
    });
  }

  /** `undefined`: not cached, or expired. */
  lookup(login: LoginRef): CacheHit | 'missing' | undefined {
    const name = loginRefString(login);
    const now = this.#options.monotonic();
    const entry = this.#rings.get(name);
    if (entry === undefined) {
      return now < (this.#missing.get(name) ?? Number.NEGATIVE_INFINITY) ? 'missing' : undefined;
    }
    if (this.#isTooOld(entry, now)) {
      this.#remove(name, 'expired');
      return undefined;
    }
    entry.usedAt = now;
    const fresh = now < entry.freshUntil;
    return { ring: entry.ring, fresh, refreshDue: !fresh && this.#failed.isDue(now, name) };
  }

  /**
   * Stores the result of a read. A login that the source does not know keeps its cached keys until they are too old.
   *
   * @param readAt when the read began: its result may have been outdated at any time since
   * @param isSearch whether the read was one
   * @returns the cached ring: the previous object if nothing changed
   */
  store(
    login: LoginRef,
    reading: KeyReading | NoKeys,
    readAt: number,
    isSearch = false,
  ): KeyRing | undefined {
    if (typeof reading !== 'string') {
      const ring = this.#storeRing(login, reading, readAt);
      const entry = this.#rings.peek(loginRefString(login));
      if (isSearch && entry !== undefined) entry.search = 'done';
      return ring;
    }
    const name = loginRefString(login);
    const entry = this.#rings.peek(name);
    if (entry !== undefined && reading === 'not-found' && !this.#isTooOld(entry, readAt)) {
      this.recordFailure(login);
      this.#recordNotFound(name, login);
      return entry.ring;
    }
    if (reading === 'deleted') this.#accepted.delete(name);
    this.#remove(name, reading === 'deleted' ? 'deleted' : 'expired');
    const { negativeTtl } = this.#settings;
    const isDoubtful = reading === 'not-found' && this.#notFound.size > 0;
    this.#missing.set(name, readAt + (isDoubtful ? Math.min(negativeTtl, doubtfulTtl) : negativeTtl));
    return undefined;
  }

  /** Marks the key as the one that the gateway accepted last of its kind. */
  keep(login: LoginRef, key: UsableKey): void {
    const name = loginRefString(login);
    const others = (this.#accepted.get(name) ?? []).filter(({ kind }) => kind !== key.kind);
    const entry = this.#rings.peek(name);
    const accepted = this.#setAccepted(name, [key, ...others], entry?.ring ?? []);
    if (entry !== undefined) entry.ring = withAccepted(entry.ring, accepted);
  }

  /**
   * The ring lacks a kind of key: makes the next read of the login a search, unless one has ended since the ring was cached.
   *
   * @returns whether it is one now, or `later`, since the last read failed
   */
  requestSearch(login: LoginRef): 'no' | 'now' | 'later' {
    const name = loginRefString(login);
    const entry = this.#rings.peek(name);
    if (entry === undefined || entry.search === 'done') return 'no';
    entry.search = 'due';
    return this.#failed.isDue(this.#options.monotonic(), name) ? 'now' : 'later';
  }

  isSearchDue(login: LoginRef): boolean {
    return this.#rings.peek(loginRefString(login))?.search === 'due';
  }

  /** The keys of the login that its next read should find again. */
  known(login: LoginRef): KeyRing {
    const name = loginRefString(login);
    const accepted = this.#accepted.get(name) ?? [];
    return this.#rings.peek(name)?.ring ?? accepted.map((key) => ({ ...key, isAccepted: true }));
  }

  /** A read failed: the cached ring stays, and its next refresh has to wait. */
  recordFailure(login: LoginRef): void {
    const name = loginRefString(login);
    if (this.#rings.has(name)) this.#failed.recordFailure(this.#options.monotonic(), {}, name);
  }

  /** What identifies the current version of the login, as last read. Does not count as use. */
  currentOf(login: LoginRef): string | undefined {
    return this.#rings.peek(loginRefString(login))?.current;
  }

  /** The stored ring of this login. Does not count as use. */
  peek(login: LoginRef): KeyRing | undefined {
    return this.#rings.peek(loginRefString(login))?.ring;
  }

  /** The rings that may be used, the last used first. Does not count as use. */
  *cachedRings(): Generator<CachedRing> {
    const now = this.#options.monotonic();
    for (const entry of this.#rings.values()) {
      if (this.#isTooOld(entry, now)) continue;
      yield { login: entry.login, ring: entry.ring, times: () => this.#timesOf(entry, now) };
    }
  }

  /** Whether at least one login could be served if the source failed now. */
  hasUsableEntries(): boolean {
    const now = this.#options.monotonic();
    for (const entry of this.#rings.values()) {
      if (!this.#isTooOld(entry, now)) return true;
    }
    return false;
  }

  /** Until the first ring that could not be read again is too old; `undefined`: there is none. */
  secondsLeft(): number | undefined {
    const now = this.#options.monotonic();
    let oldest: number | undefined;
    for (const [name, { readAt }] of this.#rings.entries()) {
      if (this.#failed.failures(name) > 0 && readAt < (oldest ?? now)) oldest = readAt;
    }
    return oldest === undefined ? undefined : Math.max(0, oldest + this.#settings.staleIfError - now) / 1000;
  }

  /** Copies the rings of another store. The settings of this one decide how long each may be used. */
  adopt(other: CacheStore): void {
    for (const name of other.#notFound) this.#notFound.add(name);
    for (const [name, keys] of [...other.#accepted.entries()].toReversed()) this.#accepted.set(name, keys);
    for (const entry of [...other.#rings.values()].toReversed()) {
      this.#rings.set(loginRefString(entry.login), { ...entry, freshUntil: this.#freshUntil(entry.readAt) });
    }
  }

  /** Recently used rings that are not fresh, the last used first. */
  outdated(): readonly LoginRef[] {
    const now = this.#options.monotonic();
    return [...this.#rings.values()]
      .filter((entry) => now >= entry.freshUntil && now - entry.usedAt < recentUse)
      .map((entry) => entry.login);
  }

  /** Removes rings that no request used within `staleIfError`, and expired ones. */
  dropUnused(): void {
    const now = this.#options.monotonic();
    // A copy, because the library's iterators must not see deletions.
    for (const [name, entry] of Array.from(this.#rings.entries())) {
      if (this.#isTooOld(entry, now)) this.#remove(name, 'expired');
      else if (now - entry.usedAt >= this.#settings.staleIfError) this.#remove(name, 'unused');
    }
  }

  /** At most `limit` logins whose rings are due for a background refresh, the oldest first. */
  dueInBackground(limit: number): readonly LoginRef[] {
    const now = this.#options.monotonic();
    return [...this.#rings.values()]
      .filter(
        (entry) => now >= backgroundReadAt(entry) && this.#failed.isDue(now, loginRefString(entry.login)),
      )
      .sort((a, b) => a.readAt - b.readAt)
      .slice(0, limit)
      .map((entry) => entry.login);
  }

  /** Reports all rings as replaced and stops reporting changes. In-flight requests may still use them. */
  retire(): void {
    for (const { login } of this.#rings.values()) this.#notify(login, undefined, 'replaced');
    this.#notFound.clear();
    this.#notifyNotFound();
    this.#retired = true;
  }

  #storeRing(login: LoginRef, { ring: found, gone, current }: KeyReading, readAt: number): KeyRing {
    const name = loginRefString(login);
    const before = this.#rings.peek(name);
    const lastRead = before?.readAt ?? Number.NEGATIVE_INFINITY;
    const stillUsed = gone
      .map((key) => ({ ...key, goneSince: key.goneSince ?? lastRead }))
      .filter(({ goneSince }) => readAt - goneSince < this.#settings.staleIfError);
    const accepted = this.#setAccepted(name, this.#accepted.get(name) ?? [], found);
    const read = withAccepted([...found, ...stillUsed], accepted);
    const changed = before === undefined || !sameRing(before.ring, read);
    const ring = changed ? read : before.ring;
    const lost = lostKeys(before?.ring, ring);
    const usedAt = before?.usedAt ?? readAt;
    const freshUntil = this.#freshUntil(readAt);
    const entry = { login, ring, current, readAt, freshUntil, usedAt };
    // A background refresh must not count as use: it would keep the ring longer than one that a request used.
    if (before === undefined) this.#rings.set(name, entry);
    else Object.assign(before, entry);
    this.#missing.delete(name);
    this.#failed.reset(name);
    this.#recordFound(name);
    if (changed) this.#notify(login, ring, undefined, lost);
    return ring;
  }

  /** With the newest version that has each: once the ring is cached no more, it is where the key is looked for. */
  #setAccepted(name: string, keys: readonly UsableKey[], ring: KeyRing): readonly UsableKey[] {
    const accepted = keys.map((key) => findEqualKey(key, ring) ?? key);
    if (accepted.length > 0) this.#accepted.set(name, accepted);
    return accepted;
  }

  #recordNotFound(name: string, login: LoginRef): void {
    if (this.#notFound.has(name)) return;
    if (this.#notFound.size === 0) this.#missing.clear();
    this.#notFound.add(name);
    this.#notifyNotFound(login);
  }

  #recordFound(name: string): void {
    if (this.#notFound.delete(name)) this.#notifyNotFound();
  }

  #notifyNotFound(login?: LoginRef): void {
    if (!this.#retired) this.#options.events.loginsNotFound(this.#notFound.size, login);
  }

  #freshUntil(readAt: number): number {
    return readAt + this.#settings.ttl * (1 - ttlJitter * this.#options.random());
  }

  #remove(name: string, removal: RingRemoval): void {
    const entry = this.#rings.peek(name);
    this.#rings.delete(name);
    this.#failed.reset(name);
    if (entry === undefined) return;
    this.#notify(entry.login, undefined, removal, removal === 'deleted' ? lostKeys(entry.ring, []) : []);
  }

  #notify(
    login: LoginRef,
    ring: KeyRing | undefined,
    removal: RingRemoval | undefined,
    lost: readonly LostKey[] = [],
  ): void {
    if (!this.#retired) this.#options.events.keyRingUpdated(login, ring, removal, lost);
  }

  /** A ring that no request used since it became outdated is not stale: reading it again was not yet due. */
  #timesOf(entry: CacheEntry, now: number): CacheTimes {
    const { login, readAt, freshUntil } = entry;
    const name = loginRefString(login);
    const isFresh = now < freshUntil;
    const wasDue = this.#failed.failures(name) > 0 || now >= backgroundReadAt(entry) + backgroundGrace;
    const wait = this.#failed.remaining(now, name);
    return {
      readAt,
      staleSince: !isFresh && wasDue ? freshUntil : undefined,
      nextRefreshAt: isFresh ? freshUntil : wait > 0 ? now + wait : undefined,
    };
  }

  #isTooOld(entry: CacheEntry, now: number): boolean {
    return now - entry.readAt >= this.#settings.staleIfError;
  }
}

/** Has the jitter of the TTL. */
function backgroundReadAt({ readAt, freshUntil }: CacheEntry): number {
  return readAt + backgroundAge * (freshUntil - readAt);
}

/** Superseded versions do not count: the newest version of the secret decides. */
function lostKeys(before: KeyRing = [], after: KeyRing): LostKey[] {
  const current = (ring: KeyRing): KeyRing => ring.filter(({ supersededAt }) => supersededAt === undefined);
  return current(before)
    .filter(({ kind }) => !current(after).some((entry) => entry.kind === kind))
    .map(({ kind, version }) => ({ kind, version }));
}

function sameRing(a: KeyRing, b: KeyRing): boolean {
  return a.length === b.length && a.every((entry, index) => sameEntry(entry, b[index]));
}

function sameEntry(a: KeyRing[number], b: KeyRing[number] | undefined): boolean {
  return (
    b !== undefined &&
    a.version === b.version &&
    a.createdAt?.getTime() === b.createdAt?.getTime() &&
    a.supersededAt?.getTime() === b.supersededAt?.getTime() &&
    a.goneSince === b.goneSince &&
    sameContent(a, b)
  );
}
