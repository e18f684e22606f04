import { SourceUnavailable } from '../../../src/keys/errors.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import {
  type KeyReading,
  type KeySource,
  type KeySourceObserver,
  type NoKeys,
  silentObserver,
} from '../../../src/keys/key-source.ts';
import { type LoginRef, loginRefString } from '../../../src/keys/login-ref.ts';
import { KeyReader } from '../../../src/keys/reader.ts';
import { distinctKeys, type KeyRing, type UsableKey } from '../../../src/keys/ring.ts';
import { KeyTable, type TableSettings } from '../../../src/keys/table.ts';
import { reveal } from '../../../src/secret.ts';

/** Wall time at the start; milliseconds since 1970. */
export const noon = Date.UTC(2026, 0, 15, 12);
export const refOf = (login: string, environment = 'sandbox'): LoginRef => ({ environment, login });
export const acme = refOf('acme');

/** A ring of control keys, newest first, numbered down to 1; an empty one is unusable. */
export function ringOf(...controlKeys: readonly string[]): KeyRing {
  return controlKeys.flatMap((key, index) => {
    const superseded = index === 0 ? {} : { supersededAt: new Date(noon - 1_000) };
    return parseKeys({ control_key: key }, { version: controlKeys.length - index, ...superseded });
  });
}

export function usable(ring: KeyRing): readonly [UsableKey, ...UsableKey[]] {
  const [newest, ...others] = distinctKeys(ring);
  if (newest === undefined) throw new TypeError('no usable key');
  return [newest, ...others];
}

/** The text of a control key. */
export function textOf({ key }: UsableKey): string {
  return key.kind === 'control_key' ? reveal(key.secret) : 'no control key';
}

/** Resolves when nothing can continue without the clock or the source. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** A clock that only the test moves, in milliseconds, with its timers. */
export class VirtualClock {
  now = 0;
  /** Milliseconds that the wall clock is ahead. */
  ahead = 0;
  readonly #timers = new Set<{ readonly at: number; readonly run: () => void }>();

  readonly monotonic = (): number => this.now;
  readonly clock = (): number => noon + this.now + this.ahead;
  readonly setTimer = (run: () => void, milliseconds: number): (() => void) => {
    const timer = { at: this.now + Math.max(0, milliseconds), run };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  };

  get timers(): number {
    return this.#timers.size;
  }

  /** Runs what is due meanwhile, in order. */
  async advance(milliseconds: number): Promise<void> {
    const end = this.now + milliseconds;
    await settled();
    for (;;) {
      const [next] = [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.now = Math.max(this.now, next.at);
      next.run();
      await settled();
    }
    this.now = end;
  }
}

/** A source that responds at once, or when the test releases its reads. The result is that of the start of the read. */
export class ScriptedSource implements KeySource {
  readonly rings = new Map<string, KeyRing>();
  /** Why logins without a ring have none. */
  withoutKeys: NoKeys = 'deleted';
  /** Added to every reading. */
  gone: KeyRing = [];
  /** What reads of this login throw instead. */
  failure: (ref: LoginRef) => SourceUnavailable | undefined = () => undefined;
  paused = false;
  /** Logins in the order of the starts of their reads. */
  readonly started: string[] = [];
  running = 0;
  #pending: (() => void)[] = [];

  async check(): Promise<void> {}

  /** All reads fail, as of a source that does not respond. @param notBefore seconds, from `Retry-After` */
  fail(notBefore?: number): void {
    this.failure = (ref) => new SourceUnavailable(ref, new Error('is down'), 'down', undefined, notBefore);
  }

  /** These logins may not be read. */
  deny(...logins: readonly string[]): void {
    this.failure = (ref) =>
      logins.includes(ref.login)
        ? new SourceUnavailable(ref, new Error('no permission'), 'denied')
        : undefined;
  }

  heal(): void {
    this.failure = () => undefined;
  }

  set(ref: LoginRef, ...controlKeys: readonly string[]): void {
    this.rings.set(loginRefString(ref), ringOf(...controlKeys));
  }

  delete(ref: LoginRef): void {
    this.rings.delete(loginRefString(ref));
  }

  async read(ref: LoginRef): Promise<KeyReading | NoKeys> {
    const { gone, withoutKeys } = this;
    const ring = this.rings.get(loginRefString(ref));
    const failure = this.failure(ref);
    this.started.push(ref.login);
    this.running += 1;
    if (this.paused) await new Promise<void>((resolve) => void this.#pending.push(resolve));
    this.running -= 1;
    if (failure !== undefined) throw failure;
    return ring === undefined ? withoutKeys : { ring, gone };
  }

  /** Ends the reads in flight. */
  async release(): Promise<void> {
    for (const resolve of this.#pending.splice(0)) resolve();
    await settled();
  }

  start(): void {}

  ready(): boolean {
    return true;
  }

  stop(): void {}
}

export const ttl = 60_000;
export const staleIfError = 43_200_000;
export const settings: TableSettings = {
  ttl,
  staleIfError,
  negativeTtl: 10_000,
  maxEntries: 1_000,
  rotationGracePeriod: 86_400_000,
};

/** Table and reader over a scripted source on a virtual clock, and what they report, as texts. */
export function newKeys(changed: Partial<TableSettings> = {}) {
  const time = new VirtualClock();
  const source = new ScriptedSource();
  const told: string[] = [];
  const looked: string[] = [];
  const events: KeySourceObserver = {
    ...silentObserver,
    keyRingUpdated: ({ login }, ring, removal, lost = []) => {
      const keys = ring?.map((entry) => ('key' in entry ? textOf(entry) : 'unusable')).join(' ');
      const versions = lost.map(({ kind, version }) => `, lost ${kind} ${version}`);
      told.push(`${login} ${keys ?? removal}${versions.join('')}`);
    },
    loginsNotFound: (count, ref, one) =>
      void told.push(`${count} not found${ref ? `: ${ref.login}` : ''}${one ? ` (${one})` : ''}`),
    loginsDenied: (count, cause, one) => void told.push(`${count} denied: ${cause}${one ? ` (${one})` : ''}`),
    keySourceUp: (up, cause) => void (up || told.push(`down: ${cause}`)),
    keyProblem: (problem, ref) => void told.push(`${ref?.login}: ${problem}`),
  };
  const { monotonic, clock, setTimer } = time;
  const newTable = (other: Partial<TableSettings> = {}): KeyTable =>
    new KeyTable({ ...settings, ...changed, ...other }, { monotonic, clock, random: () => 0, events });
  const newReader = (table: KeyTable): KeyReader => {
    const note = ({ login }: LoginRef): void => void looked.push(login);
    return new KeyReader(source, table, { monotonic, setTimer, events, sourceName: 'vault', looked: note });
  };
  const table = newTable();
  return { time, source, told, looked, events, newTable, newReader, table, reader: newReader(table) };
}
