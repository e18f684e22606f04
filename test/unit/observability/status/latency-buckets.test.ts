import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { bucketCount, bucketOf, percentile } from '../../../../src/observability/status/request-window.ts';

function counted(durations: readonly number[]): Uint32Array {
  const counts = new Uint32Array(bucketCount);
  for (const seconds of durations) counts[bucketOf(seconds)] = (counts[bucketOf(seconds)] ?? 0) + 1;
  return counts;
}

/** The smallest of the durations that at least this share of them does not exceed. */
function exactPercentile(durations: readonly number[], share: number): number {
  const sorted = durations.toSorted((a, b) => a - b);
  return sorted[Math.ceil(share * sorted.length) - 1] ?? Number.NaN;
}

describe('a percentile', () => {
  it('is the exact one or at most a tenth more', () => {
    const seconds = fc.double({ min: 0.0001, max: 1600, noNaN: true });
    fc.assert(
      fc.property(fc.array(seconds, { minLength: 1, maxLength: 300 }), (durations) => {
        for (const share of [0.5, 0.99]) {
          const exact = exactPercentile(durations, share);
          const found = percentile(counted(durations), share) ?? Number.NaN;
          // Results have three digits.
          expect(found).toBeGreaterThanOrEqual(exact * 0.995);
          expect(found).toBeLessThanOrEqual(exact * 1.1);
        }
      }),
    );
  });

  it('does not exist without durations', () => {
    expect(percentile(counted([]), 0.5)).toBeUndefined();
  });

  it.each([
    [0, 0.0001],
    [-1, 0.0001],
    [Number.NaN, 0.0001],
    [Number.POSITIVE_INFINITY, 1680],
  ])('of a duration of %p is a bound of the buckets', (seconds, bound) => {
    expect(percentile(counted([seconds]), 0.5)).toBe(bound);
  });
});
