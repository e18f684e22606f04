import type { Scenario } from './scenario-schema.ts';
import type { GatewayKeys } from './signature.ts';

/** The logins of the simulated gateway: the keys that it accepts, and which logins are blocked. */
export class Accounts {
  readonly #keys: Map<string, GatewayKeys>;
  readonly #blocked = new Set<string>();

  /** A login of the scenario without keys is known, but all its requests are rejected. */
  constructor(logins: Scenario['logins'], keys: ReadonlyMap<string, GatewayKeys>) {
    const none: GatewayKeys = { controlKeys: [], publicKeys: [] };
    this.#keys = new Map(Object.keys(logins).map((login) => [login, keys.get(login) ?? none]));
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

  #checkKnown(login: string): void {
    if (!this.#keys.has(login)) throw new TypeError(`the scenario has no login ${login}`);
  }
}
