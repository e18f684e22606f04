import type { Config } from '../../src/config/schema.ts';
import type { KeySelector } from '../../src/keys/key-selector.ts';
import type { LoginRef } from '../../src/keys/key-source.ts';
import { type KeyKind, methods } from '../../src/oauth1/methods.ts';
import { Canaries, type SendCanary } from '../../src/proxy/outbound/canary.ts';
import type { ValidatedRequest } from '../../src/proxy/outbound/signed-request.ts';
import type { GatewayResponse } from '../../src/proxy/outbound/upstream-request.ts';
import type { SetTimer } from '../../src/util/timer.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface CanaryPorts {
  /** A canary is sent before a payment that has to wait for it. Returns the number of its upstream requests. */
  readonly began: (kind: KeyKind, configuration: number) => number;
  /** With the status of its last response; `undefined`: there was none. */
  readonly ended: (kind: KeyKind, id: number, status: number | undefined) => void;
  /** Milliseconds for which a payment waited for a canary. */
  readonly waited: (milliseconds: number) => void;
}

/** The same for the canaries of one configuration. */
type OwnCanaryPorts = Omit<CanaryPorts, 'began'> & { readonly began: (kind: KeyKind) => number };

/** Gives each canary a number, and notes what becomes of it. */
export class ObservedCanaries extends Canaries {
  readonly #observer: OwnCanaryPorts;
  readonly #rotation: KeySelector;
  readonly #time: VirtualTime;

  constructor(config: Config, observer: OwnCanaryPorts, rotation: KeySelector, time: VirtualTime) {
    const monotonic = (): number => time.now;
    const setTimer: SetTimer = (run, milliseconds) => time.timer(run, milliseconds);
    const meter = { canarySent: () => {} };
    super(config, { keySelector: rotation, metrics: meter, monotonic, setTimer, nonce: () => '' });
    this.#observer = observer;
    this.#rotation = rotation;
    this.#time = time;
  }

  override async sendBefore(payment: ValidatedRequest, login: LoginRef, send: SendCanary): Promise<void> {
    // Keys that are not in memory are waited for with or without a canary.
    await this.#rotation.isAwaitingNewest(login, kindOf(payment));
    const startedAt = this.#time.now;
    await super.sendBefore(payment, login, (errand) => this.#send(errand, send));
    this.#observer.waited(this.#time.now - startedAt);
  }

  async #send(errand: ValidatedRequest, send: SendCanary): Promise<GatewayResponse> {
    const kind = kindOf(errand);
    const id = this.#observer.began(kind);
    const form = [['id', String(id)]] as const;
    let status: number | undefined;
    try {
      const reply = await send({ ...errand, form });
      status = reply.status;
      return reply;
    } finally {
      this.#observer.ended(kind, id, status);
    }
  }
}

export function kindOf({ destination }: ValidatedRequest): KeyKind {
  return methods[destination.operation.signature].kind;
}
