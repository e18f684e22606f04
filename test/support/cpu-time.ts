/** Milliseconds that some work took. */
export interface Cost {
  /** CPU of the process. */
  readonly cpu: number;
  /** For how long the event loop was held at once; at most `cpu`. */
  readonly hold: number;
}

/** CPU time, so that other processes do not count. */
export function costOf(work: () => unknown): Cost {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  const cpu = (user + system) / 1000;
  return { cpu, hold: cpu };
}

/** Milliseconds that no input may hold the event loop. */
const maxHold = 20;
/** A step doubles the input: linear work doubles, and quadratic work takes four times as long. */
const maxGrowth = 3;

/**
 * Whether work takes linear time and holds the event loop for less than 20 ms. It is measured for each size several
 * times, of which the smallest cost counts, since whatever disturbs a measurement makes it longer. A violation is
 * believed only if further runs do not lift it.
 *
 * @param sizes number of sizes, each twice the one before
 * @param floor milliseconds of CPU below which a cost says nothing about growth
 * @param measure the cost for the size with this index
 * @returns what is wrong
 */
export async function growthProblem(
  sizes: number,
  floor: number,
  measure: (size: number) => Cost | Promise<Cost>,
): Promise<string | undefined> {
  // Most work is done before it can be measured.
  if ((await measure(sizes - 1)).cpu < floor) return undefined;
  const costs: Cost[] = Array.from({ length: sizes }, () => ({ cpu: Infinity, hold: Infinity }));
  const [leastRuns, mostRuns] = [3, 20];
  let problem: string | undefined;
  for (let run = 1; run <= mostRuns; run += 1) {
    for (const [size, { cpu, hold }] of costs.entries()) {
      const cost = await measure(size);
      costs[size] = { cpu: Math.min(cpu, cost.cpu), hold: Math.min(hold, cost.hold) };
    }
    problem = violation(costs, floor);
    if (run >= leastRuns && (problem === undefined || isBeyondDoubt(costs))) return problem;
  }
  return problem;
}

function violation(costs: readonly Cost[], floor: number): string | undefined {
  const { hold = 0 } = costs.at(-1) ?? {};
  if (hold > maxHold) return `holds the event loop for ${hold.toFixed(1)} ms`;
  const times = costs.map(({ cpu }) => cpu);
  const grows = times.some((time, index) => time > maxGrowth * Math.max(times[index - 1] ?? time, floor));
  return grows ? `takes ${times.map((time) => time.toFixed(1)).join(', ')} ms` : undefined;
}

/** No run takes so much longer than it has to. */
function isBeyondDoubt(costs: readonly Cost[]): boolean {
  return (costs.at(-1)?.hold ?? 0) > 20 * maxHold;
}
