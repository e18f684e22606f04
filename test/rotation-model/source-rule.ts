import type { Conditions } from './conditions.ts';
import { longestSignature } from './facts.ts';
import type { End } from './instance.ts';

/** Milliseconds until a read of the source that hangs fails. */
const longestRead = 5_000;
/** Milliseconds between reads of a source that failed. */
export const longestPause = 60_000;
/** Milliseconds of the reads of all logins, a few at a time. */
const readsOfAll = 200;
/** Milliseconds after which a read of the gateway tried each cached key. */
const longestSteps = 35_000;

/** The first request that found a ring outdated since a key was deleted. */
interface Overdue {
  readonly since: number;
  readonly first: number;
}

/** What one instance does with the cached keys of one login when the source loses, denies or deletes them. */
export class SourceRule {
  readonly #conditions: Conditions;
  /** `keys.cache.ttl`, milliseconds. */
  readonly #ttl: number;
  readonly #report: (violation: string) => void;
  /** When each request in flight arrived. */
  readonly #arrivals = new Map<number, number>();
  /** By deleted key. */
  readonly #overdue = new Map<string, Overdue>();
  /** Since when the instance has had keys without a pause. */
  #hasKeysSince = Number.POSITIVE_INFINITY;
  #ring: readonly string[] = [];
  #ringAt = Number.POSITIVE_INFINITY;

  constructor(conditions: Conditions, ttl: number, report: (violation: string) => void) {
    this.#conditions = conditions;
    this.#ttl = ttl;
    this.#report = report;
  }

  /** Only what deletes every version removes the cached keys. @param ring names of its keys; `undefined`: removed */
  ringChanged(ring: readonly string[] | undefined, now: number): void {
    this.#hasKeysSince = ring === undefined ? Number.POSITIVE_INFINITY : Math.min(this.#hasKeysSince, now);
    this.#ring = ring ?? [];
    this.#ringAt = now;
    const deletedAt = this.#conditions.lastAllDeletedAt(now);
    if (ring === undefined && now - deletedAt > longestRead)
      this.#report('the cached keys were removed, though not every version was deleted');
  }

  /** A request arrives. The first one with an outdated ring makes the instance read it, and does not wait for that. */
  arrived(request: number, now: number): void {
    this.#arrivals.set(request, now);
    for (const [key, since] of this.#conditions.deletedSince) {
      const isDue = now >= this.#readableSince(since) + this.#ttl;
      if (isDue && this.#overdue.get(key)?.since !== since) this.#overdue.set(key, { since, first: now });
    }
  }

  /** A request is sent that was signed with this key. */
  sent(request: number, key: string, now: number): void {
    const arrivedAt = this.#arrivals.get(request);
    const since = this.#conditions.deletedSince.get(key);
    const overdue = this.#overdue.get(key);
    if (arrivedAt === undefined || since === undefined || overdue?.since !== since) return;
    if (now < this.#readableSince(since) + this.#ttl || !this.#conditions.isFastSince(since)) return;
    if (arrivedAt > overdue.first + readsOfAll + longestSignature)
      this.#report(`signed with ${key}, all versions of which were deleted ${now - since} ms ago`);
  }

  /** Cached keys are used, whatever the source says. */
  ended(request: number, end: End, now: number): void {
    const arrivedAt = this.#arrivals.get(request) ?? now;
    this.#arrivals.delete(request);
    if (arrivedAt < this.#hasKeysSince) return;
    if (end === 'key-missing' || end === 'key-source-unavailable')
      this.#report(`a request ended with ${end}, though the keys of its login are cached`);
  }

  /** Whether the ring has held a key that the gateway has accepted for so long that each read is signed with it. */
  mustSucceed(operation: Parameters<Conditions['operableSince']>[0], arrivedAt: number): boolean {
    const steady = arrivedAt - longestSteps;
    const { fastSince } = this.#conditions;
    const isOperable = (this.#conditions.operableSince(operation) ?? Number.POSITIVE_INFINITY) <= steady;
    const isAccepted = this.#ring.some((key) => this.#conditions.isAcceptedFor(key, operation, steady));
    return isOperable && isAccepted && fastSince <= steady && this.#ringAt <= steady;
  }

  /** Since when the instance can know: a source that failed is read again in steps. */
  #readableSince(deletedAt: number): number {
    const { availableSince } = this.#conditions;
    return availableSince === Number.NEGATIVE_INFINITY
      ? deletedAt
      : Math.max(deletedAt, availableSince + longestPause);
  }
}
