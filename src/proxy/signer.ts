import { performance } from 'node:perf_hooks';
import { Refusal } from '../errors.ts';
import type { SigningKey } from '../oauth1/methods.ts';
import { type Signed, sign, type Unsigned } from '../oauth1/sign.ts';
import type { Meter } from '../ops/meter.ts';

export interface SigningLimits {
  /** RSA signatures at once. */
  readonly concurrency: number;
  /** RSA signatures waiting. */
  readonly queue: number;
}

/**
 * Signs, HMAC at once and RSA in its turn: RSA runs on libuv's pool, which DNS look-ups and file reads share,
 * so it is kept below the pool's size, and the waiting line is bounded.
 */
export class Signer {
  readonly #limits: SigningLimits;
  readonly #meter: Meter;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(limits: SigningLimits, meter: Meter) {
    this.#limits = limits;
    this.#meter = meter;
  }

  /** @throws Refusal `overloaded` when the line is full */
  async sign(request: Unsigned, key: SigningKey): Promise<Signed> {
    if (key.kind === 'control_key') return this.#timed(request, key);
    if (this.#running >= this.#limits.concurrency) await this.#turn();
    else this.#running += 1;
    try {
      return await this.#timed(request, key);
    } finally {
      this.#next();
    }
  }

  async #timed(request: Unsigned, key: SigningKey): Promise<Signed> {
    const startedAt = performance.now();
    const signed = await sign(request, key);
    this.#meter.signed(request.signatureMethod, (performance.now() - startedAt) / 1000);
    return signed;
  }

  async #turn(): Promise<void> {
    if (this.#waiting.length >= this.#limits.queue) {
      throw new Refusal('overloaded', 'Too many requests wait for an RSA signature.', { retryAfter: 1 });
    }
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      this.#meter.signingQueue(this.#waiting.length);
    });
  }

  /** Hands the place to the one that waits longest. */
  #next(): void {
    const resolve = this.#waiting.shift();
    this.#meter.signingQueue(this.#waiting.length);
    if (resolve === undefined) this.#running -= 1;
    else resolve();
  }
}
