import { createPublicKey } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { isCostlyKey } from '../../../../src/auth/jwt/load-keys.ts';

/** An RSA key whose modulus has so many bits. */
function rsaKey(bits: number, exponent = 65_537n) {
  const base64url = (value: bigint): string => {
    const digits = value.toString(16);
    return Buffer.from(digits.padStart(digits.length + (digits.length % 2), '0'), 'hex').toString(
      'base64url',
    );
  };
  const modulus = 2n ** BigInt(bits) - 1n;
  return createPublicKey({
    key: { kty: 'RSA', n: base64url(modulus), e: base64url(exponent) },
    format: 'jwk',
  });
}

it.each([
  ['8,192 bits', rsaKey(8192), false],
  ['8,193 bits', rsaKey(8193), true],
  ['the largest exponent of 32 bits', rsaKey(2048, 2n ** 32n - 1n), false],
  ['the least exponent of 33 bits', rsaKey(2048, 2n ** 32n + 1n), true],
])('an RSA key with %s: whether it takes too long', (_, key, isCostly) => {
  expect(isCostlyKey(key)).toBe(isCostly);
});
