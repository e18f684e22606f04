import type { MonotonicClock } from '../util/clock.ts';
import { type ClaimStore, StoreUnavailable } from './store.ts';

/** About 50 MB. */
const maxClaims = 100_000;

interface Entry {
  claim: string;
  /** Monotonic, milliseconds. */
  readonly until: number;
}

interface MemoryStoreOptions extends MonotonicClock {
  /** Milliseconds. */
  readonly ttl: number;
  readonly max?: number;
  readonly report: (up: boolean, cause?: string) => void;
}

/** Claims of one process. One that is full takes no more: to forget one could send a payment twice. */
export class MemoryStore implements ClaimStore {
  readonly #options: MemoryStoreOptions;
  /** The oldest first. */
  readonly #claims = new Map<string, Entry>();

  constructor(options: MemoryStoreOptions) {
    this.#options = options;
  }

  async claim(name: string, claim: string): Promise<string | undefined> {
    const { ttl, monotonic, max = maxClaims, report } = this.#options;
    const now = monotonic();
    for (const [old, { until }] of this.#claims) {
      if (until > now) break;
      this.#claims.delete(old);
    }
    const existing = this.#claims.get(name);
    if (existing !== undefined) return existing.claim;
    const hasRoom = this.#claims.size < max;
    report(hasRoom, 'full');
    if (!hasRoom) throw new StoreUnavailable('full');
    this.#claims.set(name, { claim, until: now + ttl });
    return undefined;
  }

  async replace(name: string, claim: string, next?: string): Promise<void> {
    const entry = this.#claims.get(name);
    if (entry?.claim !== claim) return;
    if (next === undefined) this.#claims.delete(name);
    else entry.claim = next;
  }

  async close(): Promise<void> {}
}
