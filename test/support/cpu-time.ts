/** Milliseconds of CPU that this process spent on the work: other processes do not count. */
export function cpuTimeOf(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** Milliseconds below which a time says nothing about growth: garbage collection and compilation take as long. */
const floor = 2;
/** A step doubles the input: linear work doubles, and quadratic work takes four times as long. */
const maxGrowth = 3;

/** What the smallest times, in order of size, each for twice the input, violate; `undefined` if nothing. */
function violation(times: readonly number[], limit: number): string | undefined {
  const [last = 0] = times.slice(-1);
  const shown = times.map((time) => time.toFixed(1)).join(', ');
  if (last > limit) return `takes more than ${limit} ms: ${shown} ms`;
  const grows = times.some((time, index) => time > maxGrowth * Math.max(times[index - 1] ?? time, floor));
  return grows ? `grows more than ${maxGrowth} times from step to step: ${shown} ms` : undefined;
}

/**
 * Whether work takes linear time: measured for each size several times, of which the smallest counts, since whatever
 * disturbs a measurement makes it longer. A violation is believed only if further runs do not lift it.
 *
 * @param measure milliseconds for the size with this index
 * @returns what is wrong
 */
export async function growthProblem(
  sizes: number,
  limit: number,
  measure: (size: number) => number | Promise<number>,
): Promise<string | undefined> {
  const times = Array.from({ length: sizes }, () => Number.POSITIVE_INFINITY);
  // Most work is done before it can be measured.
  const largest = await measure(sizes - 1);
  if (largest < floor) return undefined;
  const [leastRuns, mostRuns] = [3, 20];
  let problem: string | undefined;
  for (let run = 1; run <= mostRuns; run += 1) {
    for (let size = 0; size < sizes; size += 1) {
      times[size] = Math.min(times[size] ?? 0, await measure(size));
    }
    problem = violation(times, limit);
    if (problem === undefined && run >= leastRuns) return undefined;
    // Beyond doubt: no run takes so much longer than it has to.
    if (run >= leastRuns && (times.at(-1) ?? 0) > 20 * limit) return problem;
  }
  return problem;
}
