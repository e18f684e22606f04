import { describe, expect, it } from '@jest/globals';
import { NonceMemory } from '../../../src/simulator/state.ts';

describe('the nonce memory', () => {
  it('recognizes a nonce until its timestamp would be rejected', () => {
    const nonces = new NonceMemory(10);
    expect(nonces.remember('acme', 'n', 400, 100)).toBe(true);
    expect(nonces.remember('acme', 'n', 400, 400)).toBe(false);
    expect(nonces.remember('acme', 'n', 701, 401)).toBe(true);
  });

  it('distinguishes consumer key and nonce, however their text is split', () => {
    const nonces = new NonceMemory(10);
    expect(nonces.remember('a', 'b,c', 1, 0)).toBe(true);
    expect(nonces.remember('a,b', 'c', 1, 0)).toBe(true);
    expect(nonces.remember('a","b', 'c', 1, 0)).toBe(true);
    expect(nonces.size).toBe(3);
  });

  it('forgets those past their window', () => {
    const nonces = new NonceMemory(10);
    for (const second of [1, 2, 3]) nonces.remember('acme', `n${second}`, second, 0);
    nonces.remember('acme', 'late', 9, 3);
    expect(nonces.size).toBe(2);
  });

  it('never holds more than its capacity, and forgets the oldest first', () => {
    const nonces = new NonceMemory(3);
    for (const n of [1, 2, 3, 4, 5]) nonces.remember('acme', String(n), 400, 100);
    expect(nonces.size).toBe(3);
    expect(nonces.remember('acme', '5', 400, 100)).toBe(false);
    expect(nonces.remember('acme', '1', 400, 100)).toBe(true);
  });
});
