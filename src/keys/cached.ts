import type { CacheConfig } from '../config/shape.ts';
import { Refusal } from '../errors.ts';
import { type SetTimer, setTimer } from '../util/timer.ts';
import { BackgroundRefresh } from './background-refresh.ts';
import { KeyMemory } from './memory.ts';
import { Reads } from './reads.ts';
import { Recovery } from './recovery.ts';
import { causeOf, missing, nameOf, SourceUnavailable, sourceStateOf } from './refusals.ts';
import type { KeyAddress, KeyEvents, KeyResult, KeyRing, KeySource } from './source.ts';

export interface CachePorts {
  /** Monotonic, milliseconds. */
  readonly monotonic: () => number;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly events: KeyEvents;
  /** Label of `key_fetch_duration_seconds`. */
  readonly sourceName: string;
  /** Timers of the process unless a test brings its own. */
  readonly setTimer?: SetTimer;
}

type Taken =
  | { readonly result: Extract<KeyResult, 'fresh' | 'stale' | 'fetched'>; readonly ring: KeyRing }
  | { readonly result: Extract<KeyResult, 'missing' | 'failed'>; readonly refusal: Refusal };

/**
 * Key rings kept in memory, so that signing neither waits for the key source nor depends on it: fresh for a
 * while, then served while one refresh runs in the background, and for long while the source fails.
 */
export class KeyCache {
  readonly #source: KeySource;
  readonly #ports: CachePorts;
  readonly #memory: KeyMemory;
  readonly #reads: Reads<KeyRing | undefined>;
  readonly #recovery: Recovery;
  readonly #background: BackgroundRefresh;
  #answeredAt = Number.NEGATIVE_INFINITY;
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(source: KeySource, settings: CacheConfig, ports: CachePorts) {
    this.#source = source;
    this.#ports = ports;
    this.#memory = new KeyMemory(settings, ports);
    this.#reads = new Reads((address) => this.#read(address), ports.monotonic);
    this.#recovery = new Recovery({
      setTimer,
      ...ports,
      read: (address) => this.#refresh(address),
      outdated: () => this.#memory.outdated(),
    });
    this.#background = new BackgroundRefresh({
      setTimer,
      ...ports,
      read: (address) => this.#refresh(address),
      due: (limit) => this.#dueInBackground(limit),
    });
  }

  /**
   * The keys of a login: from memory where they can be, otherwise from the source.
   *
   * @throws Refusal `key-missing`, or `key-source-unavailable` when nothing is held that may still be used.
   */
  async take(address: KeyAddress): Promise<KeyRing> {
    const taken = this.#fromMemory(address) ?? (await this.#fromSource(address));
    this.#ports.events.keyTaken(address.environment, taken.result);
    if ('refusal' in taken) throw taken.refusal;
    return taken.ring;
  }

  /**
   * The keys as the source has them now, past what is held: for a key that the gateway has just refused.
   * While the source fails it is the ring held; `undefined`: the login has no keys any more.
   *
   * @throws Refusal `key-source-unavailable` when nothing is held that may still be used.
   */
  async reread(address: KeyAddress): Promise<KeyRing | undefined> {
    try {
      return await this.#reads.anew(address, 'foreground');
    } catch (error) {
      const known = this.#memory.recall(address);
      if (known === undefined) throw refusalOf(error, address);
      return known === 'missing' ? undefined : known.ring;
    }
  }

  /** Whether some login's keys could be used if the source failed from now on. */
  holds(): boolean {
    return this.#memory.holds();
  }

  /** Takes over what another cache of the same secrets holds. */
  adopt(other: KeyCache): void {
    this.#memory.adopt(other.#memory);
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
    this.#memory.retire();
  }

  /** While the source fails the recovery alone decides when it is read. */
  #dueInBackground(limit: number): readonly KeyAddress[] {
    this.#memory.dropUnused();
    return this.#recovery.failing ? [] : this.#memory.dueInBackground(limit);
  }

  #fromMemory(address: KeyAddress): Taken | undefined {
    const known = this.#memory.recall(address);
    if (known === undefined) return undefined;
    if (known === 'missing') return { result: 'missing', refusal: missing(address) };
    if (known.fresh) return { result: 'fresh', ring: known.ring };
    if (known.refreshDue) void this.#refresh(address);
    return { result: 'stale', ring: known.ring };
  }

  async #fromSource(address: KeyAddress): Promise<Taken> {
    try {
      const ring = await this.#reads.join(address, 'foreground');
      if (ring === undefined) return { result: 'missing', refusal: missing(address) };
      return { result: 'fetched', ring };
    } catch (error) {
      return { result: 'failed', refusal: refusalOf(error, address) };
    }
  }

  async #refresh(address: KeyAddress): Promise<void> {
    await this.#reads.join(address, 'background').catch(() => {
      // Counted and reported where it happened; the ring that is held stays.
    });
  }

  /** One read of the source, remembered. {@link Reads} sees to it that an address has one at a time. */
  async #read(address: KeyAddress): Promise<KeyRing | undefined> {
    const begun = this.#ports.monotonic();
    const ring = await this.#ask(address, begun);
    return this.#memory.note(address, ring, begun);
  }

  async #ask(address: KeyAddress, begun: number): Promise<KeyRing | undefined> {
    const { monotonic, events, sourceName } = this.#ports;
    try {
      const ring = await this.#source.read(address);
      this.#answered(begun);
      return ring;
    } catch (error) {
      this.#memory.noteFailure(address);
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
  #noteFailure(address: KeyAddress, error: unknown, begun: number): void {
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
function refusalOf(error: unknown, address: KeyAddress): Refusal {
  if (error instanceof Refusal) return error;
  return new SourceUnavailable(address, new Error(`the key source threw ${nameOf(error)}`), 'down');
}
