import { randomBytes } from 'node:crypto';
import type { MonotonicClock, Randomness, WallClock } from '../util/clock.ts';

const bytes = 16;

const batch = 256;

/** Clocks and randomness of the process, for everything that takes them as options. */
export const system: WallClock & MonotonicClock & Randomness = {
  clock: Date.now,
  monotonic: performance.now.bind(performance),
  random: Math.random,
};

/**
 * Generates nonces: 128 random bits each, as 32 hex digits. Draws them in batches, because one call for a few random
 * bytes costs more than an HMAC.
 */
export function createNonceGenerator(): () => string {
  let drawn = '';
  let used = 0;
  return () => {
    if (used === drawn.length) {
      drawn = randomBytes(bytes * batch).toString('hex');
      used = 0;
    }
    const nonce = drawn.slice(used, used + 2 * bytes);
    used += nonce.length;
    return nonce;
  };
}
