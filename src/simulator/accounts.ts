import type { Scenario } from './scenario-shape.ts';
import type { GatewayKeys } from './signature.ts';

/** The logins of the gateway: what is accepted for each now, and which of them are shut out. */
export class Accounts {
  readonly #keys: Map<string, GatewayKeys>;
  readonly #refused = new Set<string>();

  /** A login of the scenario without keys is known, and every request of it is refused. */
  constructor(logins: Scenario['logins'], keys: ReadonlyMap<string, GatewayKeys>) {
    const none: GatewayKeys = { controlKeys: [], publicKeys: [] };
    this.#keys = new Map(Object.keys(logins).map((login) => [login, keys.get(login) ?? none]));
  }

  keysOf(login: string): GatewayKeys | undefined {
    return this.#keys.get(login);
  }

  isRefused(login: string): boolean {
    return this.#refused.has(login);
  }

  /** From the next request on: exactly these, so that several at once stand for a rotation under way. */
  setKeys(login: string, keys: GatewayKeys): void {
    this.#checkKnown(login);
    this.#keys.set(login, keys);
  }

  /** Answers every request of the login with 403, however right it is, or no longer. */
  setRefused(login: string, refused: boolean): void {
    this.#checkKnown(login);
    if (refused) this.#refused.add(login);
    else this.#refused.delete(login);
  }

  #checkKnown(login: string): void {
    if (!this.#keys.has(login)) throw new TypeError(`the scenario has no login ${login}`);
  }
}
