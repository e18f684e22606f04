import { LRUCache } from 'lru-cache';
import type { BackoffOptions } from '../../util/backoff.ts';
import type { LoginRef } from '../key-source.ts';
import { loginRefString } from '../login-ref.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import type { VaultError } from './errors.ts';

const range = { initial: 1000, max: 60_000 };
const maxLogins = 1000;

/** One circuit breaker per login that Vault's policy denies, so that Vault is not queried again each time. */
export class PermissionBreakers {
  readonly #options: BackoffOptions;
  readonly #breakers = new LRUCache<string, CircuitBreaker>({ max: maxLogins });

  constructor(options: BackoffOptions) {
    this.#options = options;
  }

  /** @throws VaultError `backing-off` if the login was denied recently */
  assertClosed(login: LoginRef): void {
    this.#breakers.peek(loginRefString(login))?.assertClosed();
  }

  trip(login: LoginRef, error: VaultError): void {
    const name = loginRefString(login);
    const breaker = this.#breakers.peek(name) ?? new CircuitBreaker(this.#options, range);
    breaker.trip(error);
    this.#breakers.set(name, breaker);
  }

  reset(login: LoginRef): void {
    this.#breakers.delete(loginRefString(login));
  }
}
