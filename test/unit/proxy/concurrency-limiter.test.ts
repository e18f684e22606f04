import { describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import { ConcurrencyLimiter } from '../../../src/proxy/concurrency-limiter.ts';

function errorOf(act: () => unknown): ProxyError {
  try {
    act();
  } catch (error) {
    if (error instanceof ProxyError) return error;
  }
  throw new Error('expected a ProxyError');
}

describe('the concurrency limiter', () => {
  it('rejects a request above the limit, until a slot is released', () => {
    const limiter = new ConcurrencyLimiter();
    const release = limiter.acquire('sandbox', 2);
    limiter.acquire('sandbox', 2);
    const error = errorOf(() => limiter.acquire('sandbox', 2));
    expect(error).toMatchObject({ reason: 'overloaded', status: 503, outcome: 'not-sent' });
    expect(error.headers).toEqual({ 'Retry-After': '1' });
    release();
    expect(() => limiter.acquire('sandbox', 2)).not.toThrow();
  });

  it('counts each environment separately', () => {
    const limiter = new ConcurrencyLimiter();
    limiter.acquire('sandbox', 1);
    expect(() => limiter.acquire('production', 1)).not.toThrow();
  });

  it('applies a limit that was lowered by a reload: no request is accepted until enough slots are released', () => {
    const limiter = new ConcurrencyLimiter();
    const releases = [1, 2, 3].map(() => limiter.acquire('sandbox', 3));
    expect(errorOf(() => limiter.acquire('sandbox', 2)).reason).toBe('overloaded');
    releases[0]?.();
    expect(errorOf(() => limiter.acquire('sandbox', 2)).reason).toBe('overloaded');
    releases[1]?.();
    expect(() => limiter.acquire('sandbox', 2)).not.toThrow();
  });
});
