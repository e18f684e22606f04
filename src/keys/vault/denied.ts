import { addressName } from '../address.ts';
import type { BackOffPorts } from '../back-off.ts';
import type { KeyAddress } from '../source.ts';
import { Gate } from './gate.ts';
import type { VaultError } from './problem.ts';

const range = { first: 1000, longest: 60_000 };
const mostLogins = 1000;

/** Logins whose secret Vault's policy does not let us read: asking again each time would only cost Vault. */
export class DeniedLogins {
  readonly #ports: BackOffPorts;
  readonly #gates = new Map<string, Gate>();

  constructor(ports: BackOffPorts) {
    this.#ports = ports;
  }

  /** @throws VaultError `backing-off` if the login was denied a moment ago. */
  check(address: KeyAddress): void {
    this.#gates.get(addressName(address))?.check();
  }

  remember(address: KeyAddress, error: VaultError): void {
    const name = addressName(address);
    const gate = this.#gates.get(name) ?? new Gate(this.#ports, range);
    gate.close(error);
    this.#gates.delete(name);
    this.#gates.set(name, gate);
    for (const oldest of this.#gates.keys()) {
      if (this.#gates.size <= mostLogins) break;
      this.#gates.delete(oldest);
    }
  }

  forget(address: KeyAddress): void {
    this.#gates.delete(addressName(address));
  }
}
