import { SourceUnavailable } from '../../../src/keys/errors.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import type {
  KeyReading,
  KeySource,
  KeySourceObserver,
  LostKey,
  NoKeys,
  RingRemoval,
} from '../../../src/keys/key-source.ts';
import { type LoginRef, loginRefString } from '../../../src/keys/login-ref.ts';
import type { KeyRing } from '../../../src/keys/ring.ts';
import { reveal } from '../../../src/secret.ts';

/** A ring of one control key. */
export function ringOf(controlKey: string, version = 1): KeyRing {
  return parseKeys({ control_key: controlKey }, { version });
}

/** The newest control key of a ring. */
export function keyOf(ring: KeyRing | undefined): string {
  const [entry] = ring ?? [];
  return entry !== undefined && 'key' in entry && entry.key.kind === 'control_key'
    ? reveal(entry.key.secret)
    : 'none';
}

export const acme: LoginRef = { environment: 'sandbox', login: 'acme' };
export const refOf = (login: string): LoginRef => ({ environment: 'sandbox', login });

/** A source that responds at once, or when the test releases its reads. */
export class ScriptedSource implements KeySource {
  readonly rings = new Map<string, KeyRing>();
  /** Why logins without a ring have none. */
  withoutKeys: NoKeys = 'deleted';
  /** Added to every reading. */
  gone: KeyRing = [];
  down = false;
  /** Whether it denies reading a login. */
  denies: (login: string) => boolean = () => false;
  paused = false;
  /** Logins in the order of the starts of their reads. */
  readonly started: string[] = [];
  searched = 0;
  /** The ring that each of them was given. */
  readonly known: (KeyRing | undefined)[] = [];
  readonly running: string[] = [];
  mostRunning = 0;
  /** Whether two reads of one login ever ran at the same time. */
  overlapped = false;
  #pending: PromiseWithResolvers<void>[] = [];
  #changes = 0;

  /** The result is that of the start of the read. */
  async read(login: LoginRef, known?: KeyRing, isSearch = false): Promise<KeyReading | NoKeys> {
    this.known.push(known);
    if (isSearch) this.searched += 1;
    const name = loginRefString(login);
    const ring = this.rings.get(name);
    const { down } = this;
    const denied = this.denies(login.login);
    this.started.push(login.login);
    if (this.running.includes(name)) this.overlapped = true;
    this.running.push(name);
    this.mostRunning = Math.max(this.mostRunning, this.running.length);
    await this.#whenReleased();
    this.running.splice(this.running.indexOf(name), 1);
    if (down) throw new Error('MARK: the source is down');
    if (denied) throw new SourceUnavailable(login, new Error('no permission'), 'denied');
    const { gone } = this;
    return ring === undefined ? this.withoutKeys : { ring, current: this.#identityOf(ring), gone };
  }

  /** Named with a `?` among the started reads. */
  async readCurrent(login: LoginRef): Promise<string> {
    this.started.push(`${login.login}?`);
    const ring = this.rings.get(loginRefString(login));
    const { down } = this;
    await this.#whenReleased();
    if (down) throw new Error('MARK: the source is down');
    return ring === undefined ? this.withoutKeys : this.#identityOf(ring);
  }

  set(login: LoginRef, ring: KeyRing | undefined): void {
    if (ring === undefined) this.rings.delete(loginRefString(login));
    else this.rings.set(loginRefString(login), ring);
    this.touch();
  }

  /** What a look finds is new from now on, also if the keys are the same. */
  touch(): void {
    this.#changes += 1;
  }

  /** Ends the oldest reads in flight; all of them unless `count` is given. */
  async release(count = this.#pending.length): Promise<void> {
    for (const pending of this.#pending.splice(0, count)) pending.resolve();
    await settled();
  }

  /** Removes and returns the reads in flight, for a test that ends them in another order. */
  takePending(): readonly PromiseWithResolvers<void>[] {
    return this.#pending.splice(0);
  }

  start(): void {}

  ready(): boolean {
    return true;
  }

  stop(): void {}

  #identityOf([newest]: KeyRing): string {
    return `${newest?.version}, after ${this.#changes} changes`;
  }

  async #whenReleased(): Promise<void> {
    if (!this.paused) return;
    const pending = Promise.withResolvers<void>();
    this.#pending.push(pending);
    await pending.promise;
  }
}

/** Resolves when nothing can continue without the clock or the source. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** Records the events as texts, in order. */
export class RecordedEvents implements KeySourceObserver {
  readonly lookups: string[] = [];
  readonly fetched: string[] = [];
  readonly rings: string[] = [];
  /** Logins whose rings were removed, each with the reason. */
  readonly removals: string[] = [];
  /** Kinds of keys that the source no longer has, of the login and the version that had them. */
  readonly lost: string[] = [];
  /** Numbers of logins that the source does not know, each with the login that was added. */
  readonly notFound: string[] = [];
  readonly up: boolean[] = [];
  /** Numbers of denied logins, each with the cause. */
  readonly denied: string[] = [];
  /** Each with the login. */
  readonly problems: string[] = [];
  secondsLeft: number | undefined;

  keyLookup(environment: string, result: string): void {
    this.lookups.push(`${environment} ${result}`);
  }

  keyFetched(source: string, seconds: number): void {
    this.fetched.push(`${source} ${seconds}`);
  }

  keyRingUpdated(
    login: LoginRef,
    ring: KeyRing | undefined,
    removal?: RingRemoval,
    lost: readonly LostKey[] = [],
  ): void {
    this.lost.push(...lost.map(({ kind, version }) => `${login.login} ${kind} ${version}`));
    if (ring === undefined) this.removals.push(`${login.login} ${removal}`);
    this.rings.push(`${loginRefString(login)} ${keyOf(ring)}`);
  }

  loginsNotFound(count: number, login?: LoginRef): void {
    this.notFound.push(login === undefined ? `${count}` : `${count} ${login.login}`);
  }

  keySourceUp(up: boolean): void {
    this.up.push(up);
  }

  loginsDenied(logins: number, cause: string): void {
    this.denied.push(`${logins} ${cause}`);
  }

  cachedKeysExpire(seconds: number | undefined): void {
    this.secondsLeft = seconds;
  }

  loginFailed(): void {}

  tokenExpiryChanged(): void {}

  keyProblem(problem: string, { login = '' }: Partial<LoginRef> = {}): void {
    this.problems.push(`${login} ${problem}`);
  }
}
