import type { Scenario } from './scenario-schema.ts';
import type { GatewayKeys } from './signature.ts';

/** The logins of the simulated gateway: the keys that it accepts, and which logins are blocked. */
export class Accounts {
  readonly #initial: ReadonlyMap<string, GatewayKeys>;
  #keys: Map<string, GatewayKeys>;
  readonly #blocked = new Set<string>();

  /** A login of the scenario without keys is known, but all its requests are rejected. */
  constructor(logins: Scenario['logins'], keys: ReadonlyMap<string, GatewayKeys>) {
    const none: GatewayKeys = { controlKeys: [], publicKeys: [] };
    this.#initial = new Map(Object.keys(logins).map((login) => [login, keys.get(login) ?? none]));
    this.#keys = new Map(this.#initial);
  }

  /** Every login with the keys that are accepted now. */
  list(): ReadonlyMap<string, GatewayKeys> {
    return this.#keys;
  }

  keysOf(login: string): GatewayKeys | undefined {
    return this.#keys.get(login);
  }

  isBlocked(login: string): boolean {
    return this.#blocked.has(login);
  }

  /** Replaces the accepted keys from the next request on. Several keys of a kind simulate a rotation. */
  setKeys(login: string, keys: GatewayKeys): void {
    this.#checkKnown(login);
    this.#keys.set(login, keys);
  }

  /** Rejects every request of the login with 403, or stops doing so. */
  setBlocked(login: string, blocked: boolean): void {
    this.#checkKnown(login);
    if (blocked) this.#blocked.add(login);
    else this.#blocked.delete(login);
  }

  /** Returns to the keys of the start, without blocked logins. */
  reset(): void {
    this.#keys = new Map(this.#initial);
    this.#blocked.clear();
  }

  #checkKnown(login: string): void {
    if (!this.#keys.has(login)) throw new TypeError(`the scenario has no login ${login}`);
  }
}
