import type { KeyKind } from '../oauth1/methods.ts';
import { currentSpan, inSpan } from '../trace.ts';
import type { MonotonicClock, SetTimer } from '../util/clock.ts';
import { endsWithin } from '../util/promises.ts';
import { Room } from '../util/slots.ts';
import type { KeyChoice, Place, Testimony } from './choice.ts';
import { SourceUnavailable, tooManyWaiting } from './errors.ts';
import type { CacheResult, KeySourceObserver } from './key-source.ts';
import { type LoginRef, loginRefString } from './login-ref.ts';
import type { KeyReader } from './reader.ts';
import { includesKey, KeysMissing, sameKey, type UsableKey } from './ring.ts';
import type { KeyTable, Login } from './table.ts';

/** Milliseconds that a request waits at most for one look at the source, or for a read of keys that were not used lately. */
const sourceWait = 1_000;
/** A rejected query gets one more round, since the gateway's nodes may disagree: milliseconds. */
const secondRound = { after: 200, ifAcceptedWithin: 10_000 };
/**
 * The parts of an environment's `maxInFlight` that may wait for uncached keys, for what follows a rejection, or for the key of
 * a callback. Strangers send callbacks, so these take no room of the others.
 */
const shares = { uncached: 0.5, rejected: 0.25, callbacks: 0.25 };
/** As many may wait for uncached keys however small `maxInFlight` is. */
const leastUncached = 20;

export interface CurrentKeyObserver {
  /** The gateway accepts this version, and the last one that it accepted was none or another one. */
  keyAccepted(login: LoginRef, kind: KeyKind, version: number): void;
  /** The gateway accepts a key with another version than the current one's: it signs from now on. */
  currentKeyChanged(login: LoginRef, kind: KeyKind, from: number, to: number): void;
}

interface SelectorOptions extends MonotonicClock {
  readonly table: KeyTable;
  readonly reader: KeyReader;
  readonly setTimer: SetTimer;
  readonly events: CurrentKeyObserver & Pick<KeySourceObserver, 'keyLookup'>;
}

/** What a request needs a key for. */
export interface KeyRequest extends Place {
  readonly login: LoginRef;
  readonly kind: KeyKind;
  /** Until when it may wait; monotonic, milliseconds. */
  readonly deadline: number;
  /** Requests to its environment that may be in flight. */
  readonly maxInFlight: number;
}

/** A request as it was sent, with its response. */
export interface Sent<R> {
  readonly response: R;
  readonly testimony: Testimony;
  readonly key: UsableKey;
  /** Not later than the first byte; monotonic, milliseconds. */
  readonly sentAt: number;
}

/**
 * Signs and sends a request. Calls the function for the key before it signs and once more before it sends, since the key
 * may be replaced or deleted meanwhile.
 */
export type Send<R> = (keyNow: () => UsableKey) => Promise<Sent<R>>;

/** A login's keys as a request sees them. */
interface Keys {
  readonly login: Login;
  readonly choice: KeyChoice;
}

/** The course of a request over the keys of its login; which key signs says {@link KeyChoice}. */
export class KeySelector {
  readonly #options: SelectorOptions;
  /** By environment and its limit, which a reload may change. */
  readonly #rooms = new Map<string, Readonly<Record<keyof typeof shares, Room>>>();

  constructor(options: SelectorOptions) {
    this.#options = options;
  }

  /**
   * Sends a request that may be signed again after a rejection: with the current key, then with others as long as they
   * are rejected too.
   *
   * @returns the last response
   * @throws ProxyError `key-missing`, `key-unusable`, `key-source-unavailable`; `overloaded`; what `send` throws
   */
  async query<R>(request: KeyRequest, send: Send<R>): Promise<R> {
    const keys = await this.#keysFor(request);
    const sent = await send(() => this.#keyNow(keys, request));
    this.#hear(keys, request, sent);
    if (sent.testimony !== 'rejected') return sent.response;
    const leave = this.#roomsOf(request).rejected.enter(...holdersOf(request));
    if (leave === undefined) return sent.response;
    try {
      return await this.#signAgain(keys, request, send, sent);
    } finally {
      leave();
    }
  }

  /**
   * Sends a payment once. After a rejected one of this caller and endpoint it is signed with the next key.
   *
   * @throws ProxyError as {@link query}
   */
  async payment<R>(request: KeyRequest, send: Send<R>): Promise<R> {
    const { monotonic, reader } = this.#options;
    const keys = await this.#keysFor(request);
    const { login, choice } = keys;
    const { revision } = choice;
    const next = choice.beginTrial(request, monotonic());
    try {
      const sent = await send(() => this.#keyNow(keys, request, next));
      this.#hear(keys, request, sent);
      // Not before: what says nothing, such as a business error, costs the next payment no step. Nor does a key of the ring
      // before: a new one is tried at once.
      if (next !== undefined && sent.testimony === 'rejected' && choice.revision === revision)
        choice.takeStep(request, monotonic());
      // It may be an old key that the gateway rejects, so the next payment had better find the new one.
      if (sent.testimony === 'rejected') void reader.look(login, request.caller);
      return sent.response;
    } finally {
      if (next !== undefined) choice.endTrial(request);
    }
  }

  /**
   * Finds the key with which the gateway signed, which may be each key of the ring during a rotation. If none is, the key source may
   * have a newer one. It never becomes the current key, since an old callback can be sent again.
   *
   * @returns `undefined` only if the source was read while this waited, or in the second before it
   * @throws ProxyError as {@link query}
   */
  async find(request: KeyRequest, isIt: (key: UsableKey) => boolean): Promise<UsableKey | undefined> {
    const { table, reader, monotonic } = this.#options;
    const { login, choice } = await this.#keysFor(request);
    const found = choice.keys.find(isIt);
    if (found !== undefined) return found;
    const knownSince = monotonic() - sourceWait;
    const leave = this.#roomsOf(request).callbacks.enter(...holdersOf(request));
    if (leave === undefined) throw tooManyWaiting(request.login);
    const hasLooked = await this.#look(login, request, sourceWait).finally(leave);
    const later = table.choiceOf(login, request.kind).keys.find(isIt);
    if (later === undefined && login.readAt < knownSince)
      throw hasLooked || reader.isFailing ? tooLate(request.login) : tooManyWaiting(request.login);
    return later;
  }

  /** @throws ProxyError `key-missing`, `key-unusable` if the keys are gone meanwhile */
  #keyNow({ login }: Keys, { kind }: KeyRequest, next?: UsableKey): UsableKey {
    const choice = this.#options.table.choiceOf(login, kind);
    return next !== undefined && choice.includes(next) ? next : choice.current;
  }

  /**
   * Sends a rejected query with other keys, one after the other as long as they are rejected too: with those that are known,
   * with those that a look finds, and once more with all if the gateway's nodes may disagree.
   *
   * @returns the last response
   */
  async #signAgain<R>(keys: Keys, request: KeyRequest, send: Send<R>, first: Sent<R>): Promise<R> {
    const { monotonic, setTimer, table } = this.#options;
    const { login, choice } = keys;
    let { response } = first;
    let tried = [first.key];
    /** Tries these keys, and those that come meanwhile. @returns whether there is time for more, and reason to try them */
    const areRejected = async (keysNow: () => readonly UsableKey[]): Promise<boolean> => {
      for (;;) {
        const key = keysNow().find((one) => !includesKey(tried, one));
        if (key === undefined) return true;
        if (monotonic() >= request.deadline) return false;
        const sent = await send(() => this.#keyNow(keys, request, key));
        ({ response } = sent);
        tried.push(key, sent.key);
        this.#hear(keys, request, sent, request.readOnly);
        if (sent.testimony !== 'rejected') return false;
      }
    };
    const current = (): readonly UsableKey[] => [choice.current];
    const all = (): readonly UsableKey[] => choice.keys;
    const lookUntil = Math.min(request.deadline, monotonic() + sourceWait);
    const { revision } = choice;
    const mayTry = choice.mayTry(request, monotonic());
    if (!(await areRejected(mayTry ? all : current))) return response;
    // Not before: all that are rejected at the same time may try. They count as one.
    if (mayTry) choice.takeStep(request, monotonic());
    await this.#look(login, request, lookUntil - monotonic());
    table.update(login, request.kind);
    if (!(await areRejected(choice.revision === revision ? current : all))) return response;
    if (!mayTry || monotonic() >= choice.acceptedAt + secondRound.ifAcceptedWithin) return response;
    await new Promise<void>((resolve) => setTimer(resolve, secondRound.after));
    table.update(login, request.kind);
    tried = [];
    if (await areRejected(current)) await areRejected(all);
    return response;
  }

  /** Waits for a look, these milliseconds at most. @returns whether there is one */
  async #look(login: Login, { caller }: KeyRequest, milliseconds: number): Promise<boolean> {
    const { reader, setTimer } = this.#options;
    const look = reader.look(login, caller);
    if (look === undefined) return false;
    await inSpan('wait for a look', () => endsWithin(milliseconds, look, setTimer));
    return true;
  }

  /**
   * What a response says about its key.
   *
   * @param isAgain another key was just rejected for the same form
   */
  #hear<R>(
    { login, choice }: Keys,
    request: KeyRequest,
    { testimony, key, sentAt }: Sent<R>,
    isAgain = false,
  ): void {
    if (testimony === 'rejected') return choice.recordRejected(key, request);
    const before = choice.current;
    const isAccepted =
      testimony === 'accepted' ||
      (testimony === 'error' && (isAgain || sameKey(key, before))) ||
      (testimony === 'refused' && isAgain);
    if (!isAccepted) return;
    const { events, monotonic } = this.#options;
    if (!choice.recordAccepted(key, sentAt, request, monotonic())) return;
    events.keyAccepted(login.ref, request.kind, choice.current.version);
    if (choice.current !== before)
      events.currentKeyChanged(login.ref, request.kind, before.version, choice.current.version);
  }

  /** @throws ProxyError */
  #keysFor(request: KeyRequest): Promise<Keys> {
    return inSpan('key lookup', async (span) => {
      const { login: ref, kind } = request;
      span?.add({ 'countersign.key.kind': kind });
      const login = await this.#loginOf(ref, request);
      return { login, choice: this.#options.table.choiceOf(login, kind) };
    });
  }

  async #loginOf(ref: LoginRef, request: KeyRequest): Promise<Login> {
    const { table } = this.#options;
    const idle = table.find(ref);
    if (idle !== undefined && !table.isInUse(idle)) await this.#readIdle(idle, request);
    // It may have been deleted meanwhile.
    const login = table.find(ref);
    if (login === undefined) return await this.#uncached(ref, request);
    // Not before the read, so that all requests of a burst wait for it.
    table.use(login);
    this.#count(ref, table.isFresh(login) ? 'fresh' : 'stale');
    return login;
  }

  /** Nobody read it again while it was not used. If it takes longer, the cached keys do. */
  async #readIdle({ ref, dueAt }: Login, { caller }: KeyRequest): Promise<void> {
    const { reader, monotonic, setTimer } = this.#options;
    // While the key source fails, reads may hang in their slots, and each first request would wait for that.
    if (reader.isFailing || monotonic() < dueAt) return;
    try {
      await endsWithin(sourceWait, reader.read(ref, 'request', caller), setTimer);
    } catch {
      // Counted and logged where it happened.
    }
  }

  async #uncached(ref: LoginRef, request: KeyRequest): Promise<Login> {
    const { table, reader, monotonic, setTimer } = this.#options;
    const known = table.negative(ref);
    if (known !== undefined) {
      this.#count(ref, known.reason === 'key-missing' ? 'missing' : 'failed');
      throw known;
    }
    const leave = this.#roomsOf(request).uncached.enter(...holdersOf(request));
    if (leave === undefined) throw tooManyWaiting(ref);
    try {
      const read = reader.read(ref, 'request', request.caller);
      if (!(await endsWithin(request.deadline - monotonic(), read, setTimer))) throw tooLate(ref);
    } catch (error) {
      this.#count(ref, 'failed');
      throw error;
    } finally {
      leave();
    }
    // However long that took: it was read for this request.
    const login = table.peek(ref);
    this.#count(ref, login === undefined ? 'missing' : 'fetched');
    if (login === undefined) throw new KeysMissing(ref);
    table.use(login);
    return login;
  }

  #count({ environment }: LoginRef, result: CacheResult): void {
    this.#options.events.keyLookup(environment, result);
    currentSpan()?.add({ 'countersign.key.lookup': result });
  }

  #roomsOf({ login: { environment }, maxInFlight }: KeyRequest) {
    const place = `${environment} ${maxInFlight}`;
    const rooms = this.#rooms.get(place) ?? {
      uncached: new Room(Math.max(leastUncached, maxInFlight * shares.uncached)),
      rejected: new Room(Math.max(1, maxInFlight * shares.rejected)),
      callbacks: new Room(Math.max(1, maxInFlight * shares.callbacks)),
    };
    this.#rooms.set(place, rooms);
    return rooms;
  }
}

/** The read goes on, and is for the next request. */
function tooLate(ref: LoginRef): SourceUnavailable {
  return new SourceUnavailable(
    ref,
    new Error('the key source did not respond in the time of the request'),
    'unknown',
  );
}

/** No login has the name of a caller: it has a slash. */
function holdersOf({ caller, login }: KeyRequest): [caller: string, login: string] {
  return [`caller ${caller}`, loginRefString(login)];
}
