import { ProxyError } from '../errors.ts';
import type { SigningKey } from '../oauth1/methods.ts';
import { type Signed, sign, type Unsigned } from '../oauth1/sign.ts';
import type { MetricsObserver } from '../observability/metrics-observer.ts';

export interface SigningLimits {
  /** RSA signatures at once. */
  readonly concurrency: number;
  /** RSA signatures waiting. */
  readonly maxQueue: number;
}

/**
 * Signs, HMAC at once and RSA in its turn: RSA runs on libuv's pool, which DNS look-ups and file reads share,
 * so it is kept below the pool's size, and the waiting line is bounded.
 */
export class SigningPool {
  readonly #limits: SigningLimits;
  readonly #meter: Pick<MetricsObserver, 'signed' | 'signingQueueChanged'>;
  readonly #monotonic: () => number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** @param monotonic milliseconds, never set back */
  constructor(
    limits: SigningLimits,
    meter: Pick<MetricsObserver, 'signed' | 'signingQueueChanged'>,
    monotonic: () => number,
  ) {
    this.#limits = limits;
    this.#meter = meter;
    this.#monotonic = monotonic;
  }

  /** @throws Refusal `overloaded` when the line is full */
  async sign(request: Unsigned, key: SigningKey): Promise<Signed> {
    const startedAt = this.#monotonic();
    const signed = await (key.kind === 'control_key' ? sign(request, key) : this.#withSlot(request, key));
    this.#meter.signed(request.signatureMethod, (this.#monotonic() - startedAt) / 1000);
    return signed;
  }

  async #withSlot(request: Unsigned, key: SigningKey): Promise<Signed> {
    if (this.#running >= this.#limits.concurrency) await this.#waitForSlot();
    else this.#running += 1;
    try {
      return await sign(request, key);
    } finally {
      this.#release();
    }
  }

  async #waitForSlot(): Promise<void> {
    if (this.#waiting.length >= this.#limits.maxQueue) {
      throw new ProxyError('overloaded', 'Too many requests wait for an RSA signature.', { retryAfter: 1 });
    }
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      this.#meter.signingQueueChanged(this.#waiting.length);
    });
  }

  /** Hands the place to the one that waits longest. */
  #release(): void {
    const resolve = this.#waiting.shift();
    this.#meter.signingQueueChanged(this.#waiting.length);
    if (resolve === undefined) this.#running -= 1;
    else resolve();
  }
}
