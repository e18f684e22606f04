import type { BackOffPorts } from '../back-off.ts';
import type { Lease } from './auth.ts';
import type { Credentials } from './credentials.ts';
import { Gate } from './gate.ts';
import { isProblem, VaultError } from './problem.ts';

/** They rarely get better by themselves. */
const range = { first: 30_000, longest: 300_000 };

/** Keeps credentials that Vault refused from being tried again and again; other ones are tried at once. */
export class RefusedCredentials {
  readonly #gate: Gate;
  #fingerprint: string | undefined;

  constructor(ports: BackOffPorts) {
    this.#gate = new Gate(ports, range);
  }

  /** @throws VaultError `backing-off`, `bad-credentials`, and as the login does */
  async logIn(credentials: Credentials, method: string): Promise<Lease> {
    if (this.#fingerprint !== credentials.fingerprint) this.#gate.open();
    this.#gate.check();
    try {
      const lease = await credentials.logIn();
      this.#gate.open();
      return lease;
    } catch (error) {
      if (!isProblem(error, 'rejected', 'denied')) throw error;
      const status = error.status === undefined ? {} : { status: error.status };
      const refusal = new VaultError('bad-credentials', { ...status, note: method });
      this.#fingerprint = credentials.fingerprint;
      this.#gate.close(refusal);
      throw refusal;
    }
  }
}
