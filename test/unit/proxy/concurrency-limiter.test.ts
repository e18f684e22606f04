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

const acquire = (limiter: ConcurrencyLimiter, environment: string, limit: number): (() => void) =>
  limiter.acquire({ environment, caller: 'billing' }, { environment: limit, caller: 100 });

describe('the concurrency limiter', () => {
  it('rejects a request above the limit, until a slot is released', () => {
    const limiter = new ConcurrencyLimiter();
    expect(limiter.inFlight('sandbox')).toBe(0);
    const release = acquire(limiter, 'sandbox', 2);
    acquire(limiter, 'sandbox', 2);
    expect(limiter.inFlight('sandbox')).toBe(2);
    const error = errorOf(() => acquire(limiter, 'sandbox', 2));
    expect(error).toMatchObject({ reason: 'overloaded', status: 503, outcome: 'not-sent' });
    expect(error.headers).toEqual({ 'Retry-After': '1' });
    release();
    expect(limiter.inFlight('sandbox')).toBe(1);
    expect(() => acquire(limiter, 'sandbox', 2)).not.toThrow();
  });

  it('counts each environment separately', () => {
    const limiter = new ConcurrencyLimiter();
    acquire(limiter, 'sandbox', 1);
    expect(() => acquire(limiter, 'production', 1)).not.toThrow();
  });

  it('applies a limit that was lowered by a reload: no request is accepted until enough slots are released', () => {
    const limiter = new ConcurrencyLimiter();
    const releases = [1, 2, 3].map(() => acquire(limiter, 'sandbox', 3));
    expect(errorOf(() => acquire(limiter, 'sandbox', 2)).reason).toBe('overloaded');
    releases[0]?.();
    expect(errorOf(() => acquire(limiter, 'sandbox', 2)).reason).toBe('overloaded');
    releases[1]?.();
    expect(() => acquire(limiter, 'sandbox', 2)).not.toThrow();
  });

  it('rejects a caller above its limit in all environments together, and no other caller', () => {
    const limiter = new ConcurrencyLimiter();
    const by = (caller: string, environment = 'sandbox'): (() => void) =>
      limiter.acquire({ environment, caller }, { environment: 100, caller: 2 });
    const release = by('billing');
    by('billing', 'production');
    const error = errorOf(() => by('billing'));
    expect(error).toMatchObject({ reason: 'caller-limit', status: 429, outcome: 'not-sent' });
    expect(error.headers).toEqual({ 'Retry-After': '1' });
    expect(() => by('reports')).not.toThrow();
    release();
    expect(() => by('billing')).not.toThrow();
    expect(() => by('billing')).toThrow();
  });

  it('takes no slot of a limit when the other one rejects', () => {
    const limiter = new ConcurrencyLimiter();
    const request = { environment: 'sandbox', caller: 'billing' };
    const release = limiter.acquire(request, { environment: 1, caller: 2 });
    expect(errorOf(() => limiter.acquire(request, { environment: 1, caller: 2 })).reason).toBe('overloaded');
    expect(errorOf(() => limiter.acquire(request, { environment: 2, caller: 1 })).reason).toBe(
      'caller-limit',
    );
    release();
    expect(() => limiter.acquire(request, { environment: 1, caller: 1 })).not.toThrow();
  });
});
