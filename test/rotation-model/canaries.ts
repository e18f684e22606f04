import type { Config } from '../../src/config/shape.ts';
import type { KeyAddress } from '../../src/keys/source.ts';
import { type KeyKind, methods } from '../../src/oauth1/methods.ts';
import { Canaries, type SendCanary } from '../../src/proxy/canary.ts';
import type { GatewayReply } from '../../src/proxy/crossing.ts';
import type { Errand } from '../../src/proxy/post.ts';
import type { Rotation } from '../../src/proxy/rotation.ts';
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
  readonly #rotation: Rotation;
  readonly #time: VirtualTime;

  constructor(config: Config, observer: OwnCanaryPorts, rotation: Rotation, time: VirtualTime) {
    const monotonic = (): number => time.now;
    const setTimer: SetTimer = (run, milliseconds) => time.timer(run, milliseconds);
    const meter = { canarySent: () => {} };
    super(config, { rotation, meter, monotonic, setTimer, nonce: () => '' });
    this.#observer = observer;
    this.#rotation = rotation;
    this.#time = time;
  }

  override async goBefore(payment: Errand, login: KeyAddress, send: SendCanary): Promise<void> {
    // Keys that are not in memory are waited for with or without a canary.
    await this.#rotation.isAwaitingNewest(login, kindOf(payment));
    const startedAt = this.#time.now;
    await super.goBefore(payment, login, (errand) => this.#send(errand, send));
    this.#observer.waited(this.#time.now - startedAt);
  }

  async #send(errand: Errand, send: SendCanary): Promise<GatewayReply> {
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

export function kindOf({ destination }: Errand): KeyKind {
  return methods[destination.operation.signature].kind;
}
