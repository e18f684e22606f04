/** The value below which `share` (0 to 1) of the values lie; nearest rank. */
export function percentile(values: Iterable<number>, share: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

export function median(values: Iterable<number>): number {
  return percentile(values, 0.5);
}
