import { describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import { ConcurrencyLimiter } from '../../../src/proxy/limits.ts';

function errorOf(act: () => unknown): ProxyError {
  try {
    act();
  } catch (error) {
    if (error instanceof ProxyError) return error;
  }
  throw new Error('expected a ProxyError');
}

let now = 0;

describe('the concurrency limiter', () => {
  it('rejects a request to an environment above the limit, until a slot is released', () => {
    const limiter = new ConcurrencyLimiter({ monotonic: () => now });
    expect(limiter.inFlight('sandbox')).toBe(0);
    const release = limiter.acquireForEnvironment('sandbox', 2);
    limiter.acquireForEnvironment('sandbox', 2);
    expect(limiter.inFlight('sandbox')).toBe(2);
    const error = errorOf(() => limiter.acquireForEnvironment('sandbox', 2));
    expect(error).toMatchObject({ reason: 'overloaded', status: 503, outcome: 'not-sent' });
    expect(error.detail).toBe('The limit of 2 concurrent requests to this environment is reached.');
    expect(error.headers).toEqual({ 'Retry-After': '1' });
    release();
    expect(limiter.inFlight('sandbox')).toBe(1);
    expect(() => limiter.acquireForEnvironment('sandbox', 2)).not.toThrow();
  });

  it('knows for how long no request of an environment has ended while some are in flight', () => {
    const limiter = new ConcurrencyLimiter({ monotonic: () => now });
    expect(limiter.waiting('sandbox')).toBeUndefined();
    now = 60_000;
    const release = limiter.acquireForEnvironment('sandbox', 2);
    now = 64_000;
    const other = limiter.acquireForEnvironment('sandbox', 2);
    expect(limiter.waiting('sandbox')).toBe(4);
    release();
    now = 65_000;
    expect(limiter.waiting('sandbox')).toBe(1);
    other();
    expect(limiter.waiting('sandbox')).toBeUndefined();
    limiter.acquireForEnvironment('sandbox', 2);
    expect(limiter.waiting('sandbox')).toBe(0);
  });

  it('counts each environment separately', () => {
    const limiter = new ConcurrencyLimiter({ monotonic: () => now });
    limiter.acquireForEnvironment('sandbox', 1);
    expect(() => limiter.acquireForEnvironment('production', 1)).not.toThrow();
  });

  it('applies a limit that was lowered by a reload: no request is accepted until enough slots are released', () => {
    const limiter = new ConcurrencyLimiter({ monotonic: () => now });
    const releases = [1, 2, 3].map(() => limiter.acquireForEnvironment('sandbox', 3));
    expect(errorOf(() => limiter.acquireForEnvironment('sandbox', 2)).reason).toBe('overloaded');
    releases[0]?.();
    expect(errorOf(() => limiter.acquireForEnvironment('sandbox', 2)).reason).toBe('overloaded');
    releases[1]?.();
    expect(() => limiter.acquireForEnvironment('sandbox', 2)).not.toThrow();
  });

  it('rejects a caller above its limit, and no other caller, nor one without a limit', () => {
    const limiter = new ConcurrencyLimiter({ monotonic: () => now });
    const release = limiter.acquireForCaller('billing', 2);
    limiter.acquireForCaller('billing', 2);
    const error = errorOf(() => limiter.acquireForCaller('billing', 2));
    expect(error).toMatchObject({ reason: 'caller-limit', status: 429, outcome: 'not-sent' });
    expect(error.headers).toEqual({ 'Retry-After': '1' });
    expect(() => limiter.acquireForCaller('reports', 2)).not.toThrow();
    expect(() => limiter.acquireForCaller('billing')).not.toThrow();
    release();
    expect(errorOf(() => limiter.acquireForCaller('billing', 2)).reason).toBe('caller-limit');
  });
});
