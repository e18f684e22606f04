import { describe, expect, it } from '@jest/globals';
import { Backoff } from '../../../src/util/backoff.ts';
import { setTimer } from '../../../src/util/clock.ts';

const range = { initial: 1000, max: 10_000 };

describe('backing off', () => {
  it('doubles each wait up to the maximum', () => {
    const backOff = new Backoff(range);
    let now = 0;
    const waits = Array.from({ length: 6 }, () => {
      backOff.recordFailure(now);
      const wait = backOff.remaining(now);
      now += wait;
      return wait;
    });
    expect(waits).toEqual([1000, 2000, 4000, 8000, 10_000, 10_000]);
  });

  it('has jitter of up to half, so that instances do not retry together', () => {
    const backOff = new Backoff(range, () => 0.999);
    backOff.recordFailure(0);
    expect(backOff.remaining(0)).toBeCloseTo(500.5);
  });

  it('starts with the initial wait again after a success', () => {
    const backOff = new Backoff(range);
    backOff.recordFailure(0);
    backOff.recordFailure(0);
    backOff.reset();
    expect([backOff.remaining(0), backOff.failures()]).toEqual([0, 0]);
    backOff.recordFailure(0);
    expect(backOff.remaining(0)).toBe(1000);
  });

  it('holds for each key alone, and remembers only so many', () => {
    const backOff = new Backoff(range, () => 0, 3);
    for (const key of ['a', 'b', 'a', 'c', 'd']) backOff.recordFailure(0, key);
    expect(['a', 'b', 'c', 'd', 'e'].map((key) => backOff.failures(key))).toEqual([2, 0, 1, 1, 0]);
    backOff.reset('c');
    expect(['a', 'c', 'd'].map((key) => backOff.isDue(0, key))).toEqual([false, true, false]);
    backOff.reset();
    expect(['a', 'd'].map((key) => backOff.isDue(0, key))).toEqual([true, true]);
  });

  it('remembers a thousand keys unless told otherwise, and any number of failures', () => {
    const backOff = new Backoff(range);
    for (let key = 0; key < 1_000; key += 1) backOff.recordFailure(0, String(key));
    expect(backOff.failures('0')).toBe(1);
    for (let failure = 0; failure < 1_100; failure += 1) backOff.recordFailure(0, 'often');
    expect([backOff.failures('0'), backOff.failures('often')]).toEqual([0, 1_100]);
    expect(backOff.remaining(0, 'often')).toBe(range.max);
  });

  it('uses timers that a lease of more than 24 days does not fire at once', async () => {
    let fired = false;
    const cancel = setTimer(() => {
      fired = true;
    }, 32 * 86_400_000);
    await new Promise((resolve) => setTimeout(resolve, 20));
    cancel();
    expect(fired).toBe(false);
  });
});
