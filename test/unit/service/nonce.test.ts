import { describe, expect, it } from '@jest/globals';
import { createNonceGenerator } from '../../../src/service/system.ts';

describe('nonces', () => {
  it('are 128 bits in hexadecimal, and never the same, in one batch and over several', () => {
    const nonce = createNonceGenerator();
    const made = Array.from({ length: 1000 }, nonce);
    expect(made.filter((text) => !/^[0-9a-f]{32}$/.test(text))).toEqual([]);
    expect(new Set(made).size).toBe(made.length);
  });

  it('of two sources are not the same', () => {
    const [one, other] = [createNonceGenerator(), createNonceGenerator()];
    expect(one()).not.toBe(other());
  });
});
