import { randomBytes } from 'node:crypto';

const bytes = 16;
const atOnce = 256;

/**
 * Makes the source of nonces: 128 random bits each, as 32 hex digits. Drawn many at once, because asking the
 * system for a few bytes costs more than an HMAC.
 */
export function createNonceGenerator(): () => string {
  let drawn = '';
  let used = 0;
  return () => {
    if (used === drawn.length) {
      drawn = randomBytes(bytes * atOnce).toString('hex');
      used = 0;
    }
    const nonce = drawn.slice(used, used + 2 * bytes);
    used += nonce.length;
    return nonce;
  };
}
