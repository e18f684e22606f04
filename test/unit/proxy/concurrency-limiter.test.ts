import { describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import { ConcurrencyLimiter } from '../../../src/proxy/concurrency-limiter.ts';

function refusalOf(act: () => unknown): ProxyError {
  try {
    act();
  } catch (error) {
    if (error instanceof ProxyError) return error;
  }
  throw new Error('not refused');
}

describe('admission', () => {
  it('refuses one more than the limit, and admits again when one has left', () => {
    const admission = new ConcurrencyLimiter();
    const leave = admission.acquire('sandbox', 2);
    admission.acquire('sandbox', 2);
    const refusal = refusalOf(() => admission.acquire('sandbox', 2));
    expect(refusal).toMatchObject({ reason: 'overloaded', status: 503, outcome: 'not-sent' });
    expect(refusal.headers).toEqual({ 'Retry-After': '1' });
    leave();
    expect(() => admission.acquire('sandbox', 2)).not.toThrow();
  });

  it('counts each environment for itself', () => {
    const admission = new ConcurrencyLimiter();
    admission.acquire('sandbox', 1);
    expect(() => admission.acquire('production', 1)).not.toThrow();
  });

  it('goes by the limit in force: a smaller one after a reload admits nobody until enough have left', () => {
    const admission = new ConcurrencyLimiter();
    const leaves = [1, 2, 3].map(() => admission.acquire('sandbox', 3));
    expect(refusalOf(() => admission.acquire('sandbox', 2)).reason).toBe('overloaded');
    leaves[0]?.();
    expect(refusalOf(() => admission.acquire('sandbox', 2)).reason).toBe('overloaded');
    leaves[1]?.();
    expect(() => admission.acquire('sandbox', 2)).not.toThrow();
  });
});
