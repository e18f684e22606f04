import { type Measurement, measure, watchOthers } from './measure.ts';
import { figure, percent, table } from './report.ts';
import type { Way } from './ways.ts';

type Figures = Readonly<Record<'rate' | 'cpu' | 'p50' | 'p99' | 'memory', number>>;

interface SideBySide {
  readonly rounds: number;
  readonly seconds: number;
  /** Requests per second at which the latency is measured. */
  readonly moderate: number;
  /** Heading of the column of names. */
  readonly what: string;
  /** What the figure of the CPU of others leaves out. */
  readonly without: string;
  /** Resident memory at the end of each round, in MB. */
  readonly memory?: boolean;
}

/** Measures ways after each other in each round: as fast as possible, and at a moderate rate. @returns a table of medians */
export async function compareWays(ways: readonly Way[], options: SideBySide): Promise<string> {
  const { rounds, seconds, moderate, what, without } = options;
  const disturbance = watchOthers();
  const measured = new Map(ways.map(({ name }) => [name, [] as Figures[]]));
  for (let round = 0; round < rounds; round += 1) {
    for (const way of ways) {
      const { rate, cpu } = await measure(way, { seconds, connections: 32 });
      const calm: Measurement = await measure(way, { seconds, connections: 10, rate: moderate });
      const { p50, p99, memory } = calm;
      measured.get(way.name)?.push({ rate, cpu, p50, p99, memory });
    }
  }
  const rows = [...measured].map(([name, all]) => {
    const median = (of: keyof Figures): string =>
      figure(all.map((one) => one[of]).toSorted((a, b) => a - b)[Math.floor(all.length / 2)]);
    const inRounds = (of: keyof Figures): string => all.map((one) => figure(one[of])).join(' ');
    return {
      [what]: name,
      'requests/s': median('rate'),
      'CPU of Countersign, µs': median('cpu'),
      [`p50 at ${moderate}/s, ms`]: median('p50'),
      'p99, ms': median('p99'),
      ...(options.memory
        ? { 'CPU in each round': inRounds('cpu'), 'memory, MB': inRounds('memory') }
        : { 'requests/s in each round': inRounds('rate') }),
    };
  });
  return `Other processes and the hypervisor used ${percent(disturbance())} of the CPU, without ${without}.\n\n${table(rows)}`;
}
