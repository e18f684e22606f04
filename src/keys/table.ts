import { LRUCache } from 'lru-cache';
import type { CacheConfig } from '../config/schema.ts';
import { ProxyError } from '../errors.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import type { MonotonicClock, Randomness, WallClock } from '../util/clock.ts';
import { KeyChoice } from './choice.ts';
import type { SourceUnavailable } from './errors.ts';
import type { KeyReading, KeySourceObserver, LostKey, NoKeys, RingRemoval } from './key-source.ts';
import { type DescribedVersions, describeKeys } from './key-state.ts';
import { type LoginRef, loginRefString } from './login-ref.ts';
import { type KeyRing, KeysMissing, sameRing, type UsableKey, type UsableKeys, usableKeys } from './ring.ts';

/** Milliseconds after its last use in which a login is in use. */
const inUseFor = 600_000;
/** Up to a tenth of the TTL is subtracted, so that logins that were read together are not read again together. */
const ttlJitter = 0.1;
/** Milliseconds until a login that could not be read is read again. Each failure doubles it, up to the TTL. */
const retryAfter = 1_000;

export interface TableSettings extends CacheConfig {
  /** Milliseconds during which a superseded key may still be used. */
  readonly rotationGracePeriod: number;
}

interface TableOptions extends MonotonicClock, WallClock, Randomness {
  readonly events: Pick<KeySourceObserver, 'keyRingUpdated' | 'loginsNotFound' | 'loginsDenied'>;
}

/** A row: everything that is known of a login that has keys. Times are monotonic, in milliseconds. */
export interface Login {
  readonly ref: LoginRef;
  ring: KeyRing;
  readonly choices: Map<KeyKind, KeyChoice>;
  /** When the last successful read began. */
  readAt: number;
  /** When it is to be read again. */
  dueAt: number;
  usedAt: number;
  /** Reads that failed since the last successful one, also because the source does not know the login. */
  failures: number;
  /** When a look was last begun; of it, or of the next one, which waits for its turn, the end. */
  lookedAt: number;
  look: Promise<void> | undefined;
}

/** A login without keys. There may be as many as a client invents, so it is small. */
interface Negative {
  readonly until: number;
  /** Why it could not be read; absent if the source has no keys of it. */
  readonly failure?: SourceUnavailable;
}

/**
 * What is known of each login, in memory. A row comes with the first read that finds keys, and is read again when it is due,
 * while it is in use. It leaves, with all that is known of the login, when the source has deleted it; when nobody used it, or
 * no read found it, for `staleIfError`; or from a full table, if its last use is the longest ago. Logins without keys are
 * remembered apart, so that names that a client invents push out none that has keys.
 */
export class KeyTable {
  readonly #settings: TableSettings;
  readonly #options: TableOptions;
  readonly #now: () => number;
  readonly #logins: LRUCache<string, Login>;
  readonly #negatives: LRUCache<string, Negative>;
  /** By name: when the source last denied reading a login. */
  readonly #denied = new Map<string, number>();
  #denial = '';
  /** Names of logins whose cached keys are used although the source does not know them. */
  readonly #notFound = new Set<string>();

  constructor(settings: TableSettings, options: TableOptions) {
    this.#settings = settings;
    this.#options = options;
    this.#now = options.monotonic;
    // With `max`, the library would allocate memory for all entries at once.
    const bound = { maxSize: settings.maxEntries, sizeCalculation: () => 1 };
    this.#negatives = new LRUCache(bound);
    this.#logins = new LRUCache({
      ...bound,
      dispose: ({ ref }, name, reason) => {
        if (reason === 'evict') options.events.keyRingUpdated(ref, undefined, 'evicted');
        this.#recordFound(name);
      },
    });
  }

  /** A login whose keys are not too old. A full table keeps it for longer than those that were looked for before. */
  find(ref: LoginRef): Login | undefined {
    const name = loginRefString(ref);
    const login = this.#logins.get(name);
    if (login === undefined) return undefined;
    if (!this.#isTooOld(login)) return login;
    this.#remove(name, 'expired');
    return undefined;
  }

  /** A login, however old its keys are. Does not change which one a full table forgets. */
  peek(ref: LoginRef): Login | undefined {
    return this.#logins.peek(loginRefString(ref));
  }

  /** Why a login has no keys, while that is believed; `undefined`: it has to be read. */
  negative(ref: LoginRef): ProxyError | undefined {
    const negative = this.#negatives.get(loginRefString(ref));
    if (negative === undefined || this.#now() >= negative.until) return undefined;
    return negative.failure ?? new KeysMissing(ref);
  }

  /** Counts as use. */
  use(login: Login): void {
    login.usedAt = this.#now();
  }

  /** Whether it was used recently, so that it is read again without a request. */
  isInUse({ usedAt }: Login): boolean {
    return this.#now() - usedAt < inUseFor;
  }

  isFresh({ readAt }: Login): boolean {
    return this.#now() - readAt < this.#settings.ttl;
  }

  /**
   * Which key of a kind signs.
   *
   * @throws ProxyError `key-missing`, `key-unusable`
   */
  choiceOf(login: Login, kind: KeyKind): KeyChoice {
    const { ref, ring, choices } = login;
    const { rotationGracePeriod } = this.#settings;
    const known = choices.get(kind);
    let keys: UsableKeys;
    try {
      keys = usableKeys(ref, ring, kind, this.#options.clock(), rotationGracePeriod, known?.accepted);
    } catch (error) {
      choices.delete(kind);
      throw error;
    }
    const choice = known ?? new KeyChoice(keys, this.#options.random);
    choice.update(keys);
    choices.set(kind, choice);
    return choice;
  }

  /** Which key of a kind signs, after the ring may have changed. If there is none left, the next request gets the error. */
  update(login: Login, kind: KeyKind): void {
    try {
      this.choiceOf(login, kind);
    } catch (error) {
      if (!(error instanceof ProxyError)) throw error;
    }
  }

  /** The state of each version. Changes nothing. */
  describe({ ring, choices }: Login, kind: KeyKind): DescribedVersions {
    const entries = ring.filter((entry) => entry.kind === kind);
    const { rotationGracePeriod } = this.#settings;
    return describeKeys(entries, choices.get(kind), this.#options, rotationGracePeriod);
  }

  /** What the next read of the login should find again. */
  known(ref: LoginRef): [ring: KeyRing, accepted: readonly UsableKey[]] {
    const { ring = [], choices = new Map<KeyKind, KeyChoice>() } = this.peek(ref) ?? {};
    return [ring, [...choices.values()].flatMap(({ accepted }) => accepted ?? [])];
  }

  /**
   * The result of a read. A login that the source does not know keeps its keys until they are too old.
   *
   * @param readAt when the read began
   */
  store(ref: LoginRef, reading: KeyReading | NoKeys, readAt: number): void {
    const name = loginRefString(ref);
    const login = this.#logins.peek(name);
    // A later read has ended.
    if (login !== undefined && readAt < login.readAt) return;
    this.#recordPermitted(name);
    if (typeof reading !== 'string') return this.#storeRing(ref, login, reading, readAt);
    if (reading === 'not-found' && login !== undefined && !this.#isTooOld(login)) {
      this.#postpone(login);
      return this.#recordNotFound(name, ref);
    }
    this.#remove(name, reading === 'deleted' ? 'deleted' : 'expired');
    const { negativeTtl } = this.#settings;
    // If it does not know others either that it knew, it may be the mount that vanished.
    const isDoubtful = reading === 'not-found' && this.#notFound.size > 0;
    const believed = isDoubtful ? Math.min(negativeTtl, retryAfter) : negativeTtl;
    this.#negatives.set(name, { until: readAt + believed });
  }

  /** A read failed although the source responds: it is about this login. Its keys stay. */
  storeFailure(ref: LoginRef, failure: SourceUnavailable): void {
    const name = loginRefString(ref);
    this.#readLater(name, failure);
    if (failure.source === 'denied') this.#recordDenied(name, failure.problem);
    else this.#recordPermitted(name);
  }

  isDenied(ref: LoginRef): boolean {
    return this.#denied.has(loginRefString(ref));
  }

  /** The logins in use that are due to be read, the most overdue first: of each environment at most `limit`. */
  due(limit: number): readonly LoginRef[] {
    const now = this.#now();
    const counts = new Map<string, number>();
    const isWithinLimit = ({ environment }: LoginRef): boolean => {
      const count = (counts.get(environment) ?? 0) + 1;
      counts.set(environment, count);
      return count <= limit;
    };
    return [...this.#logins.values()]
      .filter((login) => now >= login.dueAt && this.isInUse(login))
      .sort((a, b) => a.dueAt - b.dueAt)
      .map(({ ref }) => ref)
      .filter(isWithinLimit);
  }

  /**
   * A login could not be read, since the source fails: all others are read before it.
   *
   * @param isFirst it is the one with which that began, so it may be about this login alone: it waits longer each time
   */
  storeOutage(ref: LoginRef, failure: SourceUnavailable, isFirst: boolean): void {
    const login = this.peek(ref);
    if (isFirst) this.#readLater(loginRefString(ref), failure);
    else if (login !== undefined) login.dueAt = Math.max(login.dueAt, this.#now());
  }

  /** The source is back: what it could not say may be another thing now. */
  recover(): void {
    for (const { choices } of this.#logins.values())
      for (const choice of choices.values()) choice.resetSteps();
  }

  /** Forgets logins that nobody used for `staleIfError`, or that could not be read for as long. */
  dropExpired(): void {
    const now = this.#now();
    // A copy, because the library's iterators must not see deletions.
    for (const [name, login] of Array.from(this.#logins.entries())) {
      if (now - login.usedAt >= this.#settings.staleIfError) this.#remove(name, 'unused');
      else if (this.#isTooOld(login)) this.#remove(name, 'expired');
    }
    for (const [name, at] of this.#denied) if (now - at >= inUseFor) this.#recordPermitted(name);
  }

  /** The logins with keys, the last used first. Does not count as use. */
  *logins(): Generator<Login> {
    for (const login of this.#logins.values()) if (!this.#isTooOld(login)) yield login;
  }

  /** The last used login with keys that is another one. */
  otherThan(ref: LoginRef): LoginRef | undefined {
    const name = loginRefString(ref);
    for (const login of this.logins()) if (loginRefString(login.ref) !== name) return login.ref;
    return undefined;
  }

  /** Whether at least one login could be served if the source failed now. */
  hasKeys(): boolean {
    return this.logins().next().done === false;
  }

  /** Until the first keys that could not be read again are too old; `undefined`: all can be read. */
  secondsLeft(sourceFails: boolean): number | undefined {
    const now = this.#now();
    let oldest: number | undefined;
    for (const login of this.#logins.values())
      if (this.#isStale(login, sourceFails) && login.readAt < (oldest ?? now)) oldest = login.readAt;
    return oldest === undefined ? undefined : Math.max(0, oldest + this.#settings.staleIfError - now) / 1000;
  }

  /** Since when a ring is outdated, if it could not be read again. Monotonic, in milliseconds. */
  staleSince(login: Login, sourceFails: boolean): number | undefined {
    return this.#isStale(login, sourceFails) ? login.readAt + this.#settings.ttl : undefined;
  }

  /** A login of another table, whose keys were read from another source. Its current key stays, if it is one of them. */
  seed({ ref, usedAt, choices }: Login, ring: KeyRing, readAt: number): void {
    this.store(ref, { ring, gone: [] }, readAt);
    const login = this.peek(ref);
    if (login === undefined) return;
    login.usedAt = usedAt;
    for (const [kind, choice] of choices) {
      login.choices.set(kind, new KeyChoice(choice.keys, this.#options.random, choice));
      this.update(login, kind);
    }
  }

  /** Reports all keys as replaced: they are read from another source from now on. */
  retire(): void {
    const { events } = this.#options;
    for (const { ref } of this.#logins.values()) events.keyRingUpdated(ref, undefined, 'replaced');
    events.loginsNotFound(0);
  }

  #storeRing(ref: LoginRef, before: Login | undefined, reading: KeyReading, readAt: number): void {
    const name = loginRefString(ref);
    const lastRead = before?.readAt ?? Number.NEGATIVE_INFINITY;
    const stillUsed = reading.gone
      .map((key) => ({ ...key, goneSince: key.goneSince ?? lastRead }))
      .filter(({ goneSince }) => readAt - goneSince < this.#settings.staleIfError);
    const read = [...reading.ring, ...stillUsed];
    const hasChanged = before === undefined || !sameRing(before.ring, read);
    const lost = lostKeys(before?.ring, read);
    const login = before ?? newLogin(ref, read, readAt);
    const { ttl } = this.#settings;
    const dueAt = readAt + ttl * (1 - ttlJitter * this.#options.random());
    Object.assign(login, { ring: read, readAt, dueAt, failures: 0 });
    if (before === undefined) this.#logins.set(name, login);
    this.#negatives.delete(name);
    this.#recordFound(name);
    if (!hasChanged) return;
    // At once, so that a key that is gone is nowhere in memory.
    for (const kind of login.choices.keys()) this.update(login, kind);
    this.#options.events.keyRingUpdated(ref, read, undefined, lost);
  }

  #readLater(name: string, failure: SourceUnavailable): void {
    const login = this.#logins.peek(name);
    if (login !== undefined) this.#postpone(login);
    else this.#negatives.set(name, { failure, until: this.#now() + retryAfter });
  }

  #postpone(login: Login): void {
    const wait = Math.min(this.#settings.ttl, retryAfter * 2 ** login.failures);
    login.failures += 1;
    login.dueAt = this.#now() + wait * (1 - ttlJitter * this.#options.random());
  }

  #recordDenied(name: string, problem: string): void {
    const isNew = !this.#denied.delete(name);
    this.#denied.set(name, this.#now());
    const [oldest] = this.#denied.keys();
    if (this.#denied.size > this.#settings.maxEntries && oldest !== undefined) this.#denied.delete(oldest);
    this.#denial = problem;
    if (isNew) this.#notifyDenied();
  }

  #recordPermitted(name: string): void {
    if (this.#denied.delete(name)) this.#notifyDenied();
  }

  #notifyDenied(): void {
    const [one] = this.#denied.keys();
    this.#options.events.loginsDenied(this.#denied.size, this.#denial, one);
  }

  #recordNotFound(name: string, ref: LoginRef): void {
    if (this.#notFound.has(name)) return;
    // What was believed missing until now is doubtful too.
    if (this.#notFound.size === 0) this.#negatives.clear();
    this.#notFound.add(name);
    this.#notifyNotFound(ref);
  }

  #recordFound(name: string): void {
    if (this.#notFound.delete(name)) this.#notifyNotFound();
  }

  #notifyNotFound(added?: LoginRef): void {
    const [one] = this.#notFound;
    this.#options.events.loginsNotFound(this.#notFound.size, added, one);
  }

  #remove(name: string, removal: RingRemoval): void {
    const login = this.#logins.peek(name);
    this.#logins.delete(name);
    if (login === undefined) return;
    const lost = removal === 'deleted' ? lostKeys(login.ring, []) : [];
    // Nothing may be signed with deleted keys, also by a request that already has the login.
    if (removal === 'deleted') login.ring = [];
    this.#options.events.keyRingUpdated(login.ref, undefined, removal, lost);
  }

  /** Whether it could not be read again when that was due. A login that is not in use need not be. */
  #isStale(login: Login, sourceFails: boolean): boolean {
    const { failures, dueAt } = login;
    return failures > 0 || (sourceFails && this.#now() >= dueAt && this.isInUse(login));
  }

  #isTooOld({ readAt }: Login): boolean {
    return this.#now() - readAt >= this.#settings.staleIfError;
  }
}

function newLogin(ref: LoginRef, ring: KeyRing, now: number): Login {
  const times = { readAt: now, dueAt: now, usedAt: now, lookedAt: Number.NEGATIVE_INFINITY };
  return { ref, ring, choices: new Map(), ...times, failures: 0, look: undefined };
}

/** Superseded versions do not count: the newest version of the secret decides. */
function lostKeys(before: KeyRing = [], after: KeyRing): LostKey[] {
  const current = (ring: KeyRing): KeyRing => ring.filter(({ supersededAt }) => supersededAt === undefined);
  return current(before)
    .filter(({ kind }) => !current(after).some((entry) => entry.kind === kind))
    .map(({ kind, version }) => ({ kind, version }));
}
