import type { BackoffOptions } from '../../util/backoff.ts';
import type { LoginRef } from '../key-source.ts';
import { loginRefString } from '../login-ref.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import type { VaultError } from './errors.ts';

const range = { initial: 1000, max: 60_000 };
const maxLogins = 1000;

/** Logins whose secret Vault's policy does not let us read: asking again each time would only cost Vault. */
export class PermissionBreakers {
  readonly #ports: BackoffOptions;
  readonly #breakers = new Map<string, CircuitBreaker>();

  constructor(ports: BackoffOptions) {
    this.#ports = ports;
  }

  /** @throws VaultError `backing-off` if the login was denied a moment ago. */
  check(address: LoginRef): void {
    this.#breakers.get(loginRefString(address))?.assertClosed();
  }

  remember(address: LoginRef, error: VaultError): void {
    const name = loginRefString(address);
    const gate = this.#breakers.get(name) ?? new CircuitBreaker(this.#ports, range);
    gate.trip(error);
    this.#breakers.delete(name);
    this.#breakers.set(name, gate);
    for (const oldest of this.#breakers.keys()) {
      if (this.#breakers.size <= maxLogins) break;
      this.#breakers.delete(oldest);
    }
  }

  forget(address: LoginRef): void {
    this.#breakers.delete(loginRefString(address));
  }
}
