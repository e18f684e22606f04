import type { CacheConfig } from '../config/shape.ts';
import { addressName } from './address.ts';
import { BackOff } from './back-off.ts';
import { sameContent } from './key.ts';
import { RecentlyUsed } from './recently-used.ts';
import type { KeyAddress, KeyEvents, KeyRing, RingRemoval } from './source.ts';

/** Up to a tenth of the fresh time is taken off, so that what was read together is not refreshed together. */
const freshJitter = 0.1;
/** Milliseconds since its last use for which a ring is worth a refresh when the source is back. */
const recentUse = 600_000;
/** A ring in use that no request has refreshed is read again in the background after so many times its fresh time. */
const backgroundAge = 5;
/** Milliseconds between refreshes that fail. */
const pauses = { first: 1000, longest: 60_000 };

export interface MemoryPorts {
  /** Monotonic, milliseconds. */
  readonly monotonic: () => number;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly events: Pick<KeyEvents, 'ringChanged'>;
}

/** A ring that may be used. */
export interface Remembered {
  readonly ring: KeyRing;
  readonly fresh: boolean;
  /** Not fresh any more, and no failed refresh is recent enough to wait. */
  readonly refreshDue: boolean;
}

interface Held {
  readonly address: KeyAddress;
  readonly ring: KeyRing;
  readonly readAt: number;
  readonly freshUntil: number;
  readonly refresh: BackOff;
  usedAt: number;
}

/**
 * Which rings were read when, and for how long each may be used; bounded. Decides nothing about reading.
 */
export class KeyMemory {
  readonly #settings: CacheConfig;
  readonly #ports: MemoryPorts;
  readonly #rings: RecentlyUsed<Held>;
  /** Until when a login is known to have no keys; kept apart, so that unknown logins push out no ring. */
  readonly #missing: RecentlyUsed<number>;
  #retired = false;

  constructor(settings: CacheConfig, ports: MemoryPorts) {
    this.#settings = settings;
    this.#ports = ports;
    this.#rings = new RecentlyUsed(settings.entries);
    this.#missing = new RecentlyUsed(settings.entries);
  }

  /** `undefined`: nothing is known that may still be relied upon. */
  recall(address: KeyAddress): Remembered | 'missing' | undefined {
    const name = addressName(address);
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
    return { ring: held.ring, fresh, refreshDue: !fresh && held.refresh.wait === 0 };
  }

  /**
   * Notes what the source said, and gives the ring that is held from now on: the old object where nothing
   * changed.
   *
   * @param readAt when the read began: what it found may have been replaced at any time since.
   */
  note(address: KeyAddress, ring: KeyRing | undefined, readAt: number): KeyRing | undefined {
    if (ring !== undefined) return this.#hold(address, ring, readAt);
    const name = addressName(address);
    this.#forget(name, 'deleted');
    this.#missing.set(name, readAt + this.#settings.missing);
    return undefined;
  }

  /** The source could not be read: what is remembered stays, and the next refresh has to wait. */
  noteFailure(address: KeyAddress): void {
    this.#rings.peek(addressName(address))?.refresh.failed();
  }

  /** Whether some login's keys could be used if the source failed from now on. */
  holds(): boolean {
    const now = this.#ports.monotonic();
    for (const held of this.#rings.values()) {
      if (!this.#isTooOld(held, now)) return true;
    }
    return false;
  }

  /** Takes over the rings of another memory; how long each may be used is decided by the settings of this one. */
  adopt(other: KeyMemory): void {
    for (const { address, ring, readAt, usedAt } of other.#rings.values()) {
      this.#keep(address, ring, readAt, usedAt);
    }
  }

  /** Rings in use that are not fresh any more, the one used last first. */
  outdated(): readonly KeyAddress[] {
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
      if (this.#isTooOld(held, now)) this.#forget(addressName(held.address), 'expired');
      else if (now - held.usedAt >= this.#settings.stale) this.#forget(addressName(held.address), 'unused');
    }
  }

  /** At most so many rings that are due for a read in the background, the one read longest ago first. */
  dueInBackground(limit: number): readonly KeyAddress[] {
    const now = this.#ports.monotonic();
    return [...this.#rings.values()]
      .filter((held) => now >= backgroundReadAt(held) && held.refresh.wait === 0)
      .sort((a, b) => a.readAt - b.readAt)
      .slice(0, limit)
      .map((held) => held.address);
  }

  /** From now on none of its rings is in use; requests in flight may still use them. */
  retire(): void {
    for (const { address } of this.#rings.values()) this.#changed(address, undefined, 'replaced');
    this.#retired = true;
  }

  #hold(address: KeyAddress, read: KeyRing, readAt: number): KeyRing {
    const name = addressName(address);
    const before = this.#rings.peek(name);
    const changed = before === undefined || !sameRing(before.ring, read);
    const ring = changed ? read : before.ring;
    const usedAt = before?.usedAt ?? readAt;
    this.#keep(address, ring, readAt, usedAt);
    this.#missing.delete(name);
    if (changed) this.#changed(address, ring);
    return ring;
  }

  #keep(address: KeyAddress, ring: KeyRing, readAt: number, usedAt: number): void {
    const { monotonic, random } = this.#ports;
    const name = addressName(address);
    const freshUntil = readAt + this.#settings.fresh * (1 - freshJitter * random());
    const refresh = new BackOff({ monotonic, random }, pauses);
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

  #changed(address: KeyAddress, ring: KeyRing | undefined, removal?: RingRemoval): void {
    if (!this.#retired) this.#ports.events.ringChanged(address, ring, removal);
  }

  #isTooOld(held: Held, now: number): boolean {
    return now - held.readAt >= this.#settings.stale;
  }
}

/** Spread as the fresh time is. */
function backgroundReadAt({ readAt, freshUntil }: Held): number {
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
