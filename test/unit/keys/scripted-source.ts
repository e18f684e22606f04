import { parseKeys } from '../../../src/keys/key.ts';
import type {
  KeyRing,
  KeySource,
  KeySourceObserver,
  LoginRef,
  RingRemoval,
} from '../../../src/keys/key-source.ts';
import { loginRefString } from '../../../src/keys/login-ref.ts';
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
export const addressOf = (login: string): LoginRef => ({ environment: 'sandbox', login });

/** A source that does what the test says: it answers at once, or when it is let go. */
export class ScriptedSource implements KeySource {
  readonly rings = new Map<string, KeyRing>();
  down = false;
  paused = false;
  /** Logins in the order in which their reads began. */
  readonly begun: string[] = [];
  readonly running: string[] = [];
  mostRunning = 0;
  /** Whether two reads of one address ever ran at the same time. */
  overlapped = false;
  #held: PromiseWithResolvers<void>[] = [];

  /** The answer is what holds when the read begins. */
  async read(address: LoginRef): Promise<KeyRing | undefined> {
    const name = loginRefString(address);
    const ring = this.rings.get(name);
    const { down } = this;
    this.begun.push(address.login);
    if (this.running.includes(name)) this.overlapped = true;
    this.running.push(name);
    this.mostRunning = Math.max(this.mostRunning, this.running.length);
    await this.#whenLetGo();
    this.running.splice(this.running.indexOf(name), 1);
    if (down) throw new Error('MARK: the source is down');
    return ring;
  }

  set(address: LoginRef, ring: KeyRing | undefined): void {
    if (ring === undefined) this.rings.delete(loginRefString(address));
    else this.rings.set(loginRefString(address), ring);
  }

  /** Ends the oldest reads under way, all of them unless told how many. */
  async letGo(count = this.#held.length): Promise<void> {
    for (const held of this.#held.splice(0, count)) held.resolve();
    await settled();
  }

  /** The reads in flight, for a test that ends them in another order. */
  takeHeld(): readonly PromiseWithResolvers<void>[] {
    return this.#held.splice(0);
  }

  start(): void {}

  ready(): boolean {
    return true;
  }

  stop(): void {}

  async #whenLetGo(): Promise<void> {
    if (!this.paused) return;
    const held = Promise.withResolvers<void>();
    this.#held.push(held);
    await held.promise;
  }
}

/** Everything that can go on without the clock or the source has gone on. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** Writes down what happened as texts, in order. */
export class RecordedEvents implements KeySourceObserver {
  readonly taken: string[] = [];
  readonly fetched: string[] = [];
  readonly rings: string[] = [];
  /** Logins whose rings went out of use, each with the reason. */
  readonly removals: string[] = [];
  readonly up: boolean[] = [];

  keyLookup(environment: string, result: string): void {
    this.taken.push(`${environment} ${result}`);
  }

  keyFetched(source: string, seconds: number): void {
    this.fetched.push(`${source} ${seconds}`);
  }

  keyRingUpdated(address: LoginRef, ring: KeyRing | undefined, removal?: RingRemoval): void {
    if (ring === undefined) this.removals.push(`${address.login} ${removal}`);
    this.rings.push(`${loginRefString(address)} ${keyOf(ring)}`);
  }

  keySourceUp(up: boolean): void {
    this.up.push(up);
  }

  loginFailed(): void {}

  tokenExpiryChanged(): void {}

  keyProblem(): void {}
}
