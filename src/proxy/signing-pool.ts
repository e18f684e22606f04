import { overloaded } from '../errors.ts';
import type { SignRemotely } from '../keys/key-source.ts';
import type { LoginRef } from '../keys/login-ref.ts';
import type { TransitKey, UsableKey } from '../keys/ring.ts';
import { type MethodName, methods } from '../oauth1/methods.ts';
import type { EventObserver } from '../observability/events.ts';
import { NoRoom, Room, Slots } from '../util/slots.ts';
import { TokenBucket } from '../util/token-bucket.ts';

interface SigningLimits {
  /** RSA signatures made concurrently. */
  readonly concurrency: number;
  /** Queued RSA signatures, half of them for one caller; in Vault, of each environment. */
  readonly maxQueue: number;
}

/** Signatures with keys that do not leave Vault. The limits are those of each environment; a caller has half of them. */
interface RemoteSigning {
  readonly sign: SignRemotely;
  readonly maxInFlight: number;
  readonly maxPerSecond: number;
}

/** Whom a signature is for. */
export interface Signee {
  readonly login: LoginRef;
  /** A configured name. */
  readonly caller: string;
}

/** Milliseconds that a request waits at most for its turn to be signed for in Vault. */
const maxWait = 1_000;
const span = 'wait for a signing slot';

/**
 * Signs with control keys directly, and RSA with limited concurrency and a bounded queue. RSA runs in libuv's thread pool, which
 * also serves DNS lookups and file reads, so signatures must never occupy all of its threads. A key that does not leave
 * Vault signs there, within other limits.
 */
export class SigningPool {
  readonly #metrics: Pick<EventObserver, 'signed' | 'signingQueueChanged'>;
  readonly #monotonic: () => number;
  /** What is signed or waits for it. One caller alone may use every processor, but not take all the room. */
  readonly #room: Room;
  readonly #slots: Slots;
  readonly #signInVault: ReturnType<typeof bounded> | undefined;

  /** @param monotonic milliseconds of a monotonic clock */
  constructor(
    limits: SigningLimits,
    metrics: Pick<EventObserver, 'signed' | 'signingQueueChanged'>,
    monotonic: () => number,
    remote?: RemoteSigning,
  ) {
    const { concurrency: size, maxQueue: queue } = limits;
    this.#metrics = metrics;
    this.#monotonic = monotonic;
    this.#room = new Room(size + queue);
    this.#slots = new Slots({ size, queue, span, changed: (depth) => metrics.signingQueueChanged(depth) });
    this.#signInVault = remote && bounded(remote, queue, monotonic);
  }

  /** @throws ProxyError `overloaded` if the queue is full; those of {@link SignRemotely} */
  async sign(method: MethodName, text: string, key: UsableKey['key'], signee: Signee): Promise<string> {
    if ('publicKey' in key) {
      if (this.#signInVault === undefined) throw new TypeError('the key source does not sign');
      return await this.#signInVault(signee, key, text);
    }
    const startedAt = this.#monotonic();
    const sign = () => methods[method].sign(text, key, '');
    const signature = await (key.kind === 'control_key' ? sign() : this.#inTurn(sign, signee));
    this.#metrics.signed(method, (this.#monotonic() - startedAt) / 1000);
    return signature;
  }

  async #inTurn(sign: () => string | Promise<string>, { caller }: Signee): Promise<string> {
    const leave = this.#room.enter(caller);
    if (leave === undefined)
      throw overloaded(
        'signing.maxQueue',
        'The signing queue is full, for this caller or for all (signing.maxQueue).',
      );
    try {
      return await this.#slots.run(async () => await sign());
    } finally {
      leave();
    }
  }
}

/** Bounds signatures in Vault in number and rate: of each environment, and of each caller in it. */
function bounded(
  { sign: signRemotely, maxInFlight, maxPerSecond }: RemoteSigning,
  queue: number,
  monotonic: () => number,
) {
  const newRate = (rate: number): TokenBucket => new TokenBucket({ burst: rate, rate, monotonic });
  const newLimits = () => ({
    slots: new Slots({ size: maxInFlight, queue, maxWait, span }),
    rate: newRate(maxPerSecond),
    callers: new Map<string, TokenBucket>(),
  });
  const environments = new Map<string, ReturnType<typeof newLimits>>();
  return async ({ login, caller }: Signee, key: TransitKey, baseString: string): Promise<string> => {
    const { environment } = login;
    const limits = environments.get(environment) ?? newLimits();
    environments.set(environment, limits);
    const ofCaller = limits.callers.get(caller) ?? newRate(Math.ceil(maxPerSecond / 2));
    limits.callers.set(caller, ofCaller);
    const text = `Too many signatures in Vault at once for environment "${environment}", of this caller or of all (keys.vault.transit). Nothing was sent. Retry later.`;
    if (!ofCaller.take() || !limits.rate.take()) throw overloaded('keys.vault.transit', text);
    try {
      return await limits.slots.run(() => signRemotely(login, key, baseString), caller);
    } catch (error) {
      throw error instanceof NoRoom ? overloaded('keys.vault.transit', text) : error;
    }
  };
}
