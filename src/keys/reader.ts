import { overloaded } from '../errors.ts';
import { inSpan } from '../trace.ts';
import type { MonotonicClock, SetTimer } from '../util/clock.ts';
import { NoRoom, Slots } from '../util/slots.ts';
import { TokenBucket } from '../util/token-bucket.ts';
import { failedRead, SourceUnavailable } from './errors.ts';
import type { KeySource, KeySourceObserver } from './key-source.ts';
import { type LoginRef, loginRefString } from './login-ref.ts';
import type { KeyTable, Login } from './table.ts';

/**
 * Reads at the same time, in each environment, by what they are for: those of requests that wait for uncached keys, looks
 * after a rejection, and refreshes. So requests cannot take those that notice a deleted key. What may wait for a slot is
 * bounded too; a caller has half of each.
 */
const slots = {
  request: { size: 16, queue: 1_000 },
  look: { size: 8, queue: 100 },
  refresh: { size: 8, queue: 1_000 },
};
export type Purpose = keyof typeof slots;

/** Looks in a second at one login, at all logins of an environment, and for one caller in it. */
const looks = { interval: 1_000, environment: 30, caller: 15 };
/** Milliseconds between two rounds of the schedule, and the logins that one begins to read at most. */
const round = { interval: 500, logins: 100 };
/** Milliseconds between two reads of a source that fails. */
const probeInterval = 1_000;

interface ReaderOptions extends MonotonicClock {
  readonly setTimer: SetTimer;
  readonly events: Pick<KeySourceObserver, 'keyFetched' | 'keySourceUp' | 'keyProblem' | 'cachedKeysExpire'>;
  /** Label of `key_fetch_duration_seconds`. */
  readonly sourceName: string;
  /** A look begins. */
  readonly looked?: ((login: LoginRef) => void) | undefined;
}

/**
 * A source that fails: one read at a time finds out whether it still does, of another login each time if there is one. The
 * first follows at once, since it may be that only one login cannot be read.
 */
interface Failing {
  /** The login that could not be read last. */
  readonly ref: LoginRef;
  /** Another one, which a request asked for since. */
  other: LoginRef | undefined;
  readonly problem: string;
  /** When the next read may be sent; monotonic, milliseconds. */
  probeAt: number;
}

/**
 * Reads logins from the key source into the table: one read at a time per login; logins in use again when they are due;
 * while the source fails, one read each second in all. Whether there is room for a read is decided before it begins, and
 * every read ends in the table, so nobody has to wait for it.
 */
export class KeyReader {
  readonly #source: KeySource;
  readonly #table: KeyTable;
  readonly #options: ReaderOptions;
  /** By name. */
  readonly #reads = new Map<string, Promise<void>>();
  /** By environment and purpose. */
  readonly #slots = new Map<string, Slots>();
  /** By environment, and by environment and caller. */
  readonly #looks = new Map<string, TokenBucket>();
  #failing: Failing | undefined;
  #respondedAt = Number.NEGATIVE_INFINITY;
  #cancelRound: (() => void) | undefined;

  constructor(source: KeySource, table: KeyTable, options: ReaderOptions) {
    this.#source = source;
    this.#table = table;
    this.#options = options;
  }

  /** Whether the source was unavailable when it was last read. */
  get isFailing(): boolean {
    return this.#failing !== undefined;
  }

  /** Begins to read logins in use again when they are due, and to forget those that are too old. */
  start(): void {
    this.#cancelRound = this.#options.setTimer(() => {
      this.#readDue();
      this.start();
    }, round.interval);
  }

  stop(): void {
    this.#cancelRound?.();
  }

  /** A source that fails may be reached now, for instance with other certificates. */
  probeNow(): void {
    if (this.#failing === undefined) return;
    this.#failing.probeAt = this.#options.monotonic();
    this.#readDue();
  }

  /**
   * Reads a login, or joins the read in flight. The result is in the table.
   *
   * @param caller a configured name; absent if no caller is the cause
   * @throws ProxyError `overloaded`, `key-source-unavailable`; nobody has to handle that
   */
  read(ref: LoginRef, purpose: Purpose, caller?: string): Promise<void> {
    const name = loginRefString(ref);
    const inFlight = this.#reads.get(name);
    if (inFlight !== undefined) return inFlight;
    const read = this.#inTurn(ref, purpose, caller).finally(() => this.#reads.delete(name));
    this.#reads.set(name, read);
    read.catch(() => {
      // Counted and logged where it happened, and in the table.
    });
    return read;
  }

  /**
   * Looks whether the source has another key of a login, since the gateway rejected one, or the one that made a callback is
   * missing: at most once a second, so it may begin a little later.
   *
   * @returns its end, which never rejects; `undefined` without one, as there is no budget for it
   */
  look(login: Login, caller: string): Promise<void> | undefined {
    if (login.look !== undefined) return login.look;
    if (this.isFailing || !this.#takeLook(login.ref.environment, caller)) return undefined;
    login.look = this.#look(login, caller).finally(() => {
      login.look = undefined;
    });
    return login.look;
  }

  async #look(login: Login, caller: string): Promise<void> {
    const { monotonic, setTimer, looked } = this.#options;
    const wait = login.lookedAt + looks.interval - monotonic();
    if (wait > 0) await new Promise<void>((resolve) => setTimer(resolve, wait));
    login.lookedAt = monotonic();
    looked?.(login.ref);
    try {
      // One that began before may have read what was there before.
      await this.#reads.get(loginRefString(login.ref));
      await this.read(login.ref, 'look', caller);
    } catch {
      // No room, or it failed: there is nothing new.
    }
  }

  #takeLook(environment: string, caller: string): boolean {
    const budgetOf = (name: string, rate: number): TokenBucket => {
      const { monotonic } = this.#options;
      const budget = this.#looks.get(name) ?? new TokenBucket({ burst: rate, rate, monotonic });
      this.#looks.set(name, budget);
      return budget;
    };
    const ofCaller = budgetOf(`${environment}/${caller}`, looks.caller);
    return ofCaller.take() && budgetOf(environment, looks.environment).take();
  }

  #readDue(): void {
    this.#table.dropExpired();
    this.#options.events.cachedKeysExpire(this.#table.secondsLeft(this.isFailing));
    for (const ref of this.#failing === undefined
      ? this.#table.due(round.logins)
      : this.#probe(this.#failing)) {
      // Without room it is still due in the next round.
      void this.read(ref, 'refresh');
    }
  }

  /** Not the same login again and again: it may be that only this one cannot be read. */
  #probe({ ref, other, probeAt }: Failing): readonly LoginRef[] {
    if (this.#options.monotonic() < probeAt) return [];
    return [this.#table.due(1)[0] ?? this.#table.otherThan(ref) ?? other ?? ref];
  }

  /** @throws ProxyError `overloaded`, before anything begins */
  async #inTurn(ref: LoginRef, purpose: Purpose, caller?: string): Promise<void> {
    const place = `${ref.environment} ${purpose}`;
    const waiting = this.#slots.get(place) ?? new Slots({ ...slots[purpose], span: 'wait for a key read' });
    this.#slots.set(place, waiting);
    try {
      await waiting.run(() => this.#read(ref, purpose), caller);
    } catch (error) {
      if (!(error instanceof NoRoom)) throw error;
      const detail = `Too many requests wait for keys in environment "${ref.environment}". Retry later.`;
      throw overloaded('key reads', detail);
    }
  }

  async #read(ref: LoginRef, purpose: Purpose): Promise<void> {
    const { monotonic, events, sourceName } = this.#options;
    const startedAt = monotonic();
    this.#assertDue(ref, purpose, startedAt);
    try {
      const reading = await inSpan('key source read', (span) => {
        span?.add({ 'countersign.key.source': sourceName });
        return this.#source.read(ref, ...this.#table.known(ref));
      });
      this.#table.store(ref, reading, startedAt);
      this.#recordResponse();
    } catch (error) {
      const failure = failedRead(error, ref);
      this.#recordFailure(ref, failure, startedAt);
      throw failure;
    } finally {
      events.keyFetched(sourceName, (monotonic() - startedAt) / 1000);
    }
  }

  /** While the source fails, only one read a second reaches it, which no client can take. @throws SourceUnavailable */
  #assertDue(ref: LoginRef, purpose: Purpose, now: number): void {
    const failing = this.#failing;
    if (failing === undefined) return;
    if (purpose === 'refresh' && now >= failing.probeAt) {
      failing.probeAt = now + probeInterval;
      return;
    }
    if (loginRefString(ref) !== loginRefString(failing.ref)) failing.other = ref;
    throw new SourceUnavailable(ref, new Error(failing.problem), 'unknown');
  }

  #recordResponse(): void {
    this.#respondedAt = this.#options.monotonic();
    this.#options.events.keySourceUp(true);
    if (this.#failing === undefined) return;
    this.#failing = undefined;
    this.#table.recover();
  }

  /** Ignores a read that hung if the source has responded since. */
  #recordFailure(ref: LoginRef, failure: SourceUnavailable, startedAt: number): void {
    const { events, monotonic } = this.#options;
    const { source, problem } = failure;
    if (source === 'up' || source === 'denied') {
      const isNew = source === 'up' || !this.#table.isDenied(ref);
      this.#table.storeFailure(ref, failure);
      this.#recordResponse();
      if (isNew) events.keyProblem(`key read failed: ${problem}`, ref);
    }
    if (source !== 'down' || startedAt < this.#respondedAt) return;
    const isFirst = this.#failing === undefined;
    this.#table.storeOutage(ref, failure, isFirst);
    this.#failing = { ref, other: undefined, problem, probeAt: monotonic() + probeInterval };
    events.keySourceUp(false, problem);
    // It may be that only this login cannot be read.
    if (isFirst && this.#table.otherThan(ref) !== undefined) this.probeNow();
  }
}
