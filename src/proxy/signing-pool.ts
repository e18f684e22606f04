import { ProxyError } from '../errors.ts';
import type { SigningKey } from '../oauth1/methods.ts';
import { type Signed, sign, type Unsigned } from '../oauth1/sign.ts';
import type { MetricsObserver } from '../observability/metrics-observer.ts';

interface SigningLimits {
  /** RSA signatures made concurrently. */
  readonly concurrency: number;
  /** Queued RSA signatures. */
  readonly maxQueue: number;
}

/**
 * Signs HMAC directly and RSA with limited concurrency and a bounded queue. RSA runs in libuv's thread pool, which
 * also serves DNS lookups and file reads, so signatures must never occupy all of its threads.
 */
export class SigningPool {
  readonly #limits: SigningLimits;
  readonly #metrics: Pick<MetricsObserver, 'signed' | 'signingQueueChanged'>;
  readonly #monotonic: () => number;
  readonly #queue: (() => void)[] = [];
  #running = 0;

  /** @param monotonic milliseconds of a monotonic clock */
  constructor(
    limits: SigningLimits,
    metrics: Pick<MetricsObserver, 'signed' | 'signingQueueChanged'>,
    monotonic: () => number,
  ) {
    this.#limits = limits;
    this.#metrics = metrics;
    this.#monotonic = monotonic;
  }

  /** @throws ProxyError `overloaded` if the queue is full */
  async sign(request: Unsigned, key: SigningKey): Promise<Signed> {
    const startedAt = this.#monotonic();
    const signed = await (key.kind === 'control_key' ? sign(request, key) : this.#withSlot(request, key));
    this.#metrics.signed(request.signatureMethod, (this.#monotonic() - startedAt) / 1000);
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
    if (this.#queue.length >= this.#limits.maxQueue) {
      throw new ProxyError('overloaded', 'The signing queue is full.', { retryAfter: 1 });
    }
    await new Promise<void>((resolve) => {
      this.#queue.push(resolve);
      this.#metrics.signingQueueChanged(this.#queue.length);
    });
  }

  /** Passes the slot to the request that has waited longest. */
  #release(): void {
    const resolve = this.#queue.shift();
    this.#metrics.signingQueueChanged(this.#queue.length);
    if (resolve === undefined) this.#running -= 1;
    else resolve();
  }
}
