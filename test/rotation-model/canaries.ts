import type { Config } from '../../src/config/schema.ts';
import { createRoutes } from '../../src/gateway/router.ts';
import type { KeySelector } from '../../src/keys/key-selector.ts';
import type { LoginRef } from '../../src/keys/login-ref.ts';
import type { Patience } from '../../src/keys/waiting.ts';
import { type KeyKind, methods } from '../../src/oauth1/methods.ts';
import { Canaries, type SendCanary } from '../../src/proxy/outbound/canary.ts';
import type { ValidatedRequest } from '../../src/proxy/outbound/signed-request.ts';
import type { GatewayResponse } from '../../src/proxy/outbound/upstream-request.ts';
import type { SetTimer } from '../../src/util/clock.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface CanaryHooks {
  /** A canary is sent before a payment that waits for it. Returns the id of its upstream requests. */
  readonly began: (login: string, kind: KeyKind, configuration: number) => number;
  /** With the status of its last response; `undefined`: there was none. */
  readonly ended: (login: string, kind: KeyKind, id: number, status: number | undefined) => void;
  /** Milliseconds for which a payment waited for a canary. */
  readonly waited: (login: string, milliseconds: number) => void;
}

/** {@link CanaryHooks} for the canaries of one configuration. */
type OwnCanaryHooks = Omit<CanaryHooks, 'began'> & {
  readonly began: (login: string, kind: KeyKind) => number;
};

/** Numbers the canaries and records their results. */
export class ObservedCanaries extends Canaries {
  readonly #observer: OwnCanaryHooks;
  readonly #keySelector: KeySelector;
  readonly #time: VirtualTime;

  constructor(config: Config, observer: OwnCanaryHooks, rotation: KeySelector, time: VirtualTime) {
    const monotonic = (): number => time.now;
    const setTimer: SetTimer = (run, milliseconds) => time.timer(run, milliseconds);
    const metrics = { canarySent: () => {} };
    super(createRoutes(config), {
      keySelector: rotation,
      metrics,
      monotonic,
      setTimer,
      nonce: () => '',
    });
    this.#observer = observer;
    this.#keySelector = rotation;
    this.#time = time;
  }

  override async sendBefore(
    payment: ValidatedRequest,
    login: LoginRef,
    patience: Patience,
    send: SendCanary,
  ): Promise<void> {
    // A request waits for keys that are not cached, with or without a canary.
    await this.#keySelector.keysOf(login, kindOf(payment), patience);
    const startedAt = this.#time.now;
    await super.sendBefore(payment, login, patience, (request) => this.#send(request, send));
    this.#observer.waited(login.login, this.#time.now - startedAt);
  }

  async #send(request: ValidatedRequest, send: SendCanary): Promise<GatewayResponse> {
    const kind = kindOf(request);
    const id = this.#observer.began(request.login, kind);
    const form = [['id', String(id)]] as const;
    let status: number | undefined;
    try {
      const response = await send({ ...request, form });
      status = response.status;
      return response;
    } finally {
      this.#observer.ended(request.login, kind, id, status);
    }
  }
}

export function kindOf({ destination }: ValidatedRequest): KeyKind {
  return methods[destination.operation.signature].kind;
}
