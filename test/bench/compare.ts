import { cpus } from 'node:os';
import { markdown } from '../support/command.ts';
import { type Measurement, measure, warmUp, watchOthers } from './measure.ts';
import type { Way } from './ways.ts';

interface Options {
  readonly rounds: number;
  readonly seconds: number;
  /** Requests that each process gets before. */
  readonly warmUpRequests: number;
}

interface Figures extends Measurement {
  /** At a moderate rate, if the way is fast enough. */
  readonly paced: Measurement | undefined;
  /** CPU to that of the naive app, measured at the same time. */
  readonly ratio: number | undefined;
}

/** Requests per second at which the latency is measured, unless a way has its own. */
const moderate = 500;

/** Measures ways after each other in each round: as fast as possible, and at a moderate rate. @returns a table of medians */
export async function compare(ways: readonly Way[], options: Options): Promise<string> {
  const { rounds, warmUpRequests } = options;
  for (const way of ways) await warmUp(way, way.before ?? warmUpRequests);
  const disturbance = watchOthers();
  const naive = ways.find(({ name }) => name.startsWith('naive app'));
  const measured = new Map(ways.map((way) => [way, [] as Figures[]]));
  for (let round = 0; round < rounds; round += 1)
    for (const [way, figures] of measured) figures.push(await figuresOf(way, naive, options));
  const rows = [...measured].map(([{ name }, all]) => {
    const median = (of: (figures: Figures) => number | undefined): string => {
      const sorted = all.flatMap((one) => of(one) ?? []).sort((a, b) => a - b);
      return figure(sorted[Math.floor(sorted.length / 2)]);
    };
    const each = (of: (figures: Figures) => number | undefined): string =>
      all.map((one) => figure(of(one))).join(' ');
    return [
      name,
      median(({ rate }) => rate),
      median(({ cpu }) => cpu),
      each(({ cpu }) => cpu),
      median(({ ratio }) => ratio),
      each(({ ratio }) => ratio),
      `${median(({ paced }) => paced?.p50)}, ${median(({ paced }) => paced?.p99)}`,
      median(({ memory }) => memory),
    ];
  });
  const head = ['way', 'requests/s', 'CPU, µs', 'in each round', 'ratio to naive', 'in each round'];
  const [cpu] = cpus();
  return `${cpus().length} cores (${cpu?.model}), Node ${process.version}; others used ${Math.round(disturbance() * 100)} % of the CPU.

${markdown([[...head, 'p50, p99 at a moderate rate, ms', 'memory, MB'], ...rows])}\n`;
}

async function figuresOf(way: Way, naive: Way | undefined, { seconds }: Options): Promise<Figures> {
  const full = { seconds, connections: 32 };
  const rate = way.load?.rate ?? moderate;
  const alone = await measure(way, full);
  // Longer, since p99 is that of the slowest 50.
  const load = { seconds: 2 * seconds, connections: 50, rate };
  const paced = alone.rate > 1.3 * rate ? await measure(way, load) : undefined;
  const isCompared = naive !== undefined && way.child !== undefined && typeof way.signature === 'string';
  if (!isCompared) return { ...alone, paced, ratio: undefined };
  const [own, others] = await Promise.all([measure(way, full), measure(naive, full)]);
  return { ...alone, paced, ratio: own.cpu / others.cpu };
}

/** Three digits, or `-` for what was not measured. */
function figure(value = Number.NaN): string {
  const maximumSignificantDigits = value < 1000 ? 3 : 4;
  return Number.isFinite(value) ? value.toLocaleString('en', { maximumSignificantDigits }) : '-';
}
