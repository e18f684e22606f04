import { type BackoffOptions, ExponentialBackoff } from '../util/backoff.ts';
import type { SetTimer } from '../util/timer.ts';
import type { LoginRef } from './key-source.ts';

/** Milliseconds between probes of a source that fails, when no request probes it. */
const probes = { initial: 1000, max: 10_000 };
/** Logins whose refresh begins together, and milliseconds between one group and the next, plus as much by chance. */
const group = { size: 8, every: 100 };

export interface RecoveryPorts extends BackoffOptions {
  readonly setTimer: SetTimer;
  /** Reads an address once more, in the background. Never rejects. */
  readonly read: (address: LoginRef) => Promise<void>;
  /** The logins whose rings are worth a refresh when the source is back, the most urgent first. */
  readonly outdated: () => readonly LoginRef[];
}

/**
 * Notices by itself when a source that failed answers again, also when no request asks for it, and then
 * refreshes the rings in use: what changed during the outage would otherwise be found by a 403.
 */
export class Recovery {
  readonly #ports: RecoveryPorts;
  readonly #backOff: ExponentialBackoff;
  #failing = false;
  #stopped = false;
  #cancel: (() => void) | undefined;

  constructor(ports: RecoveryPorts) {
    this.#ports = ports;
    this.#backOff = new ExponentialBackoff(ports, probes);
  }

  /** The source could not be used when it was last asked. */
  get failing(): boolean {
    return this.#failing;
  }

  /** The source could not be used for this address. */
  failed(address: LoginRef): void {
    // A refresh that is still to come would only be another probe.
    if (!this.#failing) this.#cancelTimer();
    this.#failing = true;
    if (this.#cancel !== undefined) return;
    this.#backOff.recordFailure();
    this.#later(this.#backOff.remaining, () => void this.#probe(address));
  }

  answered(): void {
    if (!this.#failing) return;
    this.#failing = false;
    this.#backOff.reset();
    this.#cancelTimer();
    this.#refresh(this.#ports.outdated());
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelTimer();
  }

  async #probe(address: LoginRef): Promise<void> {
    await this.#ports.read(address);
    // A read that was not even tried says nothing about the source.
    if (this.#failing) this.failed(address);
  }

  #refresh(addresses: readonly LoginRef[]): void {
    if (addresses.length === 0) return;
    this.#later(group.every * (1 + this.#ports.random()), () => {
      for (const address of addresses.slice(0, group.size)) void this.#ports.read(address);
      this.#refresh(addresses.slice(group.size));
    });
  }

  #later(milliseconds: number, run: () => void): void {
    if (this.#stopped) return;
    this.#cancel = this.#ports.setTimer(() => {
      this.#cancel = undefined;
      run();
    }, milliseconds);
  }

  #cancelTimer(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}
