import { describe, expect, it } from '@jest/globals';
import { ConcurrencyLimiter, MemoryBudget } from '../../../src/proxy/limits.ts';

let now = 0;

describe('the concurrency limiter', () => {
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

  it('applies a limit that was lowered by a reload: no request is accepted until enough slots are released', () => {
    const limiter = new ConcurrencyLimiter({ monotonic: () => now });
    const releases = [1, 2, 3].map(() => limiter.acquireForEnvironment('sandbox', 3));
    expect(() => limiter.acquireForEnvironment('sandbox', 2)).toThrow('overloaded');
    releases[0]?.();
    expect(() => limiter.acquireForEnvironment('sandbox', 2)).toThrow('overloaded');
    releases[1]?.();
    expect(() => limiter.acquireForEnvironment('sandbox', 2)).not.toThrow();
  });
});

describe('the memory budget', () => {
  it('gives a holder as much as it leaves free, in all its reservations together', () => {
    const budget = new MemoryBudget(100);
    const [first, second] = [budget.reservation('billing'), budget.reservation('billing')];
    expect([first.reserve(30), second.reserve(21), second.reserve(20), first.reserve(1)]).toEqual([
      true,
      false,
      true,
      false,
    ]);
  });

  it('leaves something for the next holder, whatever the others take', () => {
    const budget = new MemoryBudget(1_000_000);
    const most = (holder: string): number => {
      const reservation = budget.reservation(holder);
      let bytes = 0;
      while (reservation.reserve(10)) bytes += 10;
      return bytes;
    };
    expect([most('a'), most('b'), most('c'), most('d')]).toEqual([500_000, 250_000, 125_000, 62_500]);
  });

  it('gets the bytes of a reservation back once when it is released', () => {
    const budget = new MemoryBudget(20);
    const first = budget.reservation('billing');
    first.reserve(4);
    first.reserve(6);
    first.release();
    first.release();
    expect(budget.reservation('billing').reserve(11)).toBe(false);
    expect(budget.reservation('billing').reserve(10)).toBe(true);
  });

  it('applies a changed limit', () => {
    const budget = new MemoryBudget(20);
    const held = budget.reservation('billing');
    held.reserve(8);
    budget.limit = 10;
    expect(budget.reservation('reports').reserve(2)).toBe(false);
    held.release();
    expect(budget.reservation('reports').reserve(5)).toBe(true);
  });

  it('gets all bytes back after the limit was lowered below the sum of the reservations', () => {
    const budget = new MemoryBudget(120);
    const held = [1, 2, 3].map(() => budget.reservation('billing'));
    for (const reservation of held) reservation.reserve(20);
    budget.limit = 20;
    for (const reservation of held) reservation.release();
    expect(budget.reservation('billing').reserve(10)).toBe(true);
  });
});
