import type { CacheConfig } from '../config/schema.ts';
import { ExponentialBackoff } from '../util/backoff.ts';
import { LruMap } from '../util/lru-map.ts';
import { sameContent } from './key.ts';
import type { KeyRing, KeySourceObserver, LoginRef, RingRemoval } from './key-source.ts';
import { loginRefString } from './login-ref.ts';

/** Up to a tenth of the fresh time is taken off, so that what was read together is not refreshed together. */
const freshJitter = 0.1;
/** Milliseconds since its last use for which a ring is worth a refresh when the source is back. */
const recentUse = 600_000;
/** A ring in use that no request has refreshed is read again in the background after so many times its fresh time. */
const backgroundAge = 5;
/** Milliseconds between refreshes that fail. */
const pauses = { initial: 1000, max: 60_000 };

export interface CacheStoreOptions {
  /** Monotonic, milliseconds. */
  readonly monotonic: () => number;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly events: Pick<KeySourceObserver, 'keyRingUpdated'>;
}

/** A ring that may be used. */
export interface CacheHit {
  readonly ring: KeyRing;
  readonly fresh: boolean;
  /** Not fresh any more, and no failed refresh is recent enough to wait. */
  readonly refreshDue: boolean;
}

interface CacheEntry {
  readonly address: LoginRef;
  readonly ring: KeyRing;
  readonly readAt: number;
  readonly freshUntil: number;
  readonly refresh: ExponentialBackoff;
  usedAt: number;
}

/**
 * Which rings were read when, and for how long each may be used; bounded. Decides nothing about reading.
 */
export class CacheStore {
  readonly #settings: CacheConfig;
  readonly #ports: CacheStoreOptions;
  readonly #rings: LruMap<CacheEntry>;
  /** Until when a login is known to have no keys; kept apart, so that unknown logins push out no ring. */
  readonly #missing: LruMap<number>;
  #retired = false;

  constructor(settings: CacheConfig, ports: CacheStoreOptions) {
    this.#settings = settings;
    this.#ports = ports;
    this.#rings = new LruMap(settings.maxEntries);
    this.#missing = new LruMap(settings.maxEntries);
  }

  /** `undefined`: nothing is known that may still be relied upon. */
  lookup(address: LoginRef): CacheHit | 'missing' | undefined {
    const name = loginRefString(address);
    const now = this.#ports.monotonic();
    const held = this.#rings.get(name);
    if (held === undefined) {
      return now < (this.#missing.get(name) ?? Number.NEGATIVE_INFINITY) ? 'missing' : undefined;
    }
    if (this.#isTooOld(held, now)) {
      this.#forget(name, 'expired');
      return undefined;
    }
    held.usedAt = now;
    const fresh = now < held.freshUntil;
    return { ring: held.ring, fresh, refreshDue: !fresh && held.refresh.remaining === 0 };
  }

  /**
   * Notes what the source said, and gives the ring that is held from now on: the old object where nothing
   * changed.
   *
   * @param readAt when the read began: what it found may have been replaced at any time since.
   */
  store(address: LoginRef, ring: KeyRing | undefined, readAt: number): KeyRing | undefined {
    if (ring !== undefined) return this.#hold(address, ring, readAt);
    const name = loginRefString(address);
    this.#forget(name, 'deleted');
    this.#missing.set(name, readAt + this.#settings.negativeTtl);
    return undefined;
  }

  /** The source could not be read: what is remembered stays, and the next refresh has to wait. */
  recordFailure(address: LoginRef): void {
    this.#rings.peek(loginRefString(address))?.refresh.recordFailure();
  }

  /** Whether some login's keys could be used if the source failed from now on. */
  hasUsableEntries(): boolean {
    const now = this.#ports.monotonic();
    for (const held of this.#rings.values()) {
      if (!this.#isTooOld(held, now)) return true;
    }
    return false;
  }

  /** Takes over the rings of another memory; how long each may be used is decided by the settings of this one. */
  adopt(other: CacheStore): void {
    for (const { address, ring, readAt, usedAt } of other.#rings.values()) {
      this.#keep(address, ring, readAt, usedAt);
    }
  }

  /** Rings in use that are not fresh any more, the one used last first. */
  outdated(): readonly LoginRef[] {
    const now = this.#ports.monotonic();
    return [...this.#rings.values()]
      .filter((held) => now >= held.freshUntil && now - held.usedAt < recentUse)
      .map((held) => held.address)
      .toReversed();
  }

  /**
   * Drops rings that are not in use: a ring is in use while a request used it within the stale time. Whatever else
   * may not be used any more is dropped with them.
   */
  dropUnused(): void {
    const now = this.#ports.monotonic();
    for (const held of this.#rings.values()) {
      if (this.#isTooOld(held, now)) this.#forget(loginRefString(held.address), 'expired');
      else if (now - held.usedAt >= this.#settings.staleIfError)
        this.#forget(loginRefString(held.address), 'unused');
    }
  }

  /** At most so many rings that are due for a read in the background, the one read longest ago first. */
  dueInBackground(limit: number): readonly LoginRef[] {
    const now = this.#ports.monotonic();
    return [...this.#rings.values()]
      .filter((held) => now >= backgroundReadAt(held) && held.refresh.remaining === 0)
      .sort((a, b) => a.readAt - b.readAt)
      .slice(0, limit)
      .map((held) => held.address);
  }

  /** From now on none of its rings is in use; requests in flight may still use them. */
  retire(): void {
    for (const { address } of this.#rings.values()) this.#changed(address, undefined, 'replaced');
    this.#retired = true;
  }

  #hold(address: LoginRef, read: KeyRing, readAt: number): KeyRing {
    const name = loginRefString(address);
    const before = this.#rings.peek(name);
    const changed = before === undefined || !sameRing(before.ring, read);
    const ring = changed ? read : before.ring;
    const usedAt = before?.usedAt ?? readAt;
    this.#keep(address, ring, readAt, usedAt);
    this.#missing.delete(name);
    if (changed) this.#changed(address, ring);
    return ring;
  }

  #keep(address: LoginRef, ring: KeyRing, readAt: number, usedAt: number): void {
    const { monotonic, random } = this.#ports;
    const name = loginRefString(address);
    const freshUntil = readAt + this.#settings.ttl * (1 - freshJitter * random());
    const refresh = new ExponentialBackoff({ monotonic, random }, pauses);
    const held = { address, ring, readAt, freshUntil, refresh, usedAt };
    // A read in the background is no use, and must not keep the ring longer than one that a request used later.
    if (this.#rings.peek(name) !== undefined) {
      this.#rings.replace(name, held);
      return;
    }
    const evicted = this.#rings.set(name, held);
    if (evicted !== undefined) this.#changed(evicted.address, undefined, 'evicted');
  }

  #forget(name: string, removal: RingRemoval): void {
    const held = this.#rings.delete(name);
    if (held !== undefined) this.#changed(held.address, undefined, removal);
  }

  #changed(address: LoginRef, ring: KeyRing | undefined, removal?: RingRemoval): void {
    if (!this.#retired) this.#ports.events.keyRingUpdated(address, ring, removal);
  }

  #isTooOld(held: CacheEntry, now: number): boolean {
    return now - held.readAt >= this.#settings.staleIfError;
  }
}

/** Spread as the fresh time is. */
function backgroundReadAt({ readAt, freshUntil }: CacheEntry): number {
  return readAt + backgroundAge * (freshUntil - readAt);
}

function sameRing(a: KeyRing, b: KeyRing): boolean {
  return a.length === b.length && a.every((entry, index) => sameEntry(entry, b[index]));
}

function sameEntry(a: KeyRing[number], b: KeyRing[number] | undefined): boolean {
  return (
    b !== undefined &&
    a.version === b.version &&
    a.supersededAt?.getTime() === b.supersededAt?.getTime() &&
    sameContent(a, b)
  );
}
