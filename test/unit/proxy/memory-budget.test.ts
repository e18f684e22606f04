import { describe, expect, it } from '@jest/globals';
import { MemoryBudget } from '../../../src/proxy/memory-budget.ts';

describe('the memory budget', () => {
  it('limits the sum of all reservations', () => {
    const budget = new MemoryBudget(10);
    const [first, second] = [budget.reservation(), budget.reservation()];
    expect([first.reserve(6), second.reserve(5), second.reserve(4), first.reserve(1)]).toEqual([
      true,
      false,
      true,
      false,
    ]);
  });

  it('gets the bytes of a reservation back once when it is released', () => {
    const budget = new MemoryBudget(10);
    const first = budget.reservation();
    first.reserve(4);
    first.reserve(6);
    first.release();
    first.release();
    expect(budget.reservation().reserve(11)).toBe(false);
    expect(budget.reservation().reserve(10)).toBe(true);
  });

  it('applies a changed limit', () => {
    const budget = new MemoryBudget(10);
    const held = budget.reservation();
    held.reserve(8);
    budget.limit = 5;
    expect(budget.reservation().reserve(1)).toBe(false);
    held.release();
    expect(budget.reservation().reserve(5)).toBe(true);
  });

  it('gets all bytes back after the limit was lowered below the sum of the reservations', () => {
    const budget = new MemoryBudget(60);
    const held = [budget.reservation(), budget.reservation(), budget.reservation()];
    for (const reservation of held) reservation.reserve(20);
    budget.limit = 10;
    for (const reservation of held) reservation.release();
    expect(budget.reservation().reserve(10)).toBe(true);
  });
});
