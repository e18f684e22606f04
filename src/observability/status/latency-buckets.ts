/** Upper bound of the first bucket in seconds. */
const smallest = 0.0001;
/** Each bucket reaches 2^(1/8) times as far as the one before: a percentile is at most a tenth too high. */
const perDoubling = 8;
/** The last bucket has everything above 28 minutes. */
export const bucketCount = 24 * perDoubling + 1;

/** The bucket of a duration in seconds. */
export function bucketOf(seconds: number): number {
  if (!(seconds > smallest)) return 0;
  return Math.min(bucketCount - 1, Math.ceil(Math.log2(seconds / smallest) * perDoubling));
}

/** Seconds that a share of the durations did not exceed; `undefined` without durations. @param counts by bucket */
export function percentile(counts: Uint32Array, share: number): number | undefined {
  let rest = Math.ceil(share * counts.reduce((sum, count) => sum + count, 0));
  if (rest === 0) return undefined;
  const bucket = counts.findIndex((count) => {
    rest -= count;
    return rest <= 0;
  });
  return Number((smallest * 2 ** (bucket / perDoubling)).toPrecision(3));
}
