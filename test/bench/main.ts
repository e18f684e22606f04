import { cpus } from 'node:os';
import { markdown, runCommand } from '../support/command.ts';
import { type Measurement, measure, warmUp } from './measure.ts';
import { startUpstream } from './upstream.ts';
import { startWays, verifyWay, type Way } from './ways.ts';

const usage = `Usage: npm run bench -- [options]

Measures what a request through Countersign costs, beside what a team would write in a day. Needs Linux, wrk and an idle
machine.

  --quick        measures for a second at a time, in one round: to see that it works, not to know the figures`;

interface Figures extends Measurement {
  /** At a moderate rate, if the way is fast enough. */
  readonly paced: Measurement | undefined;
  /** CPU to that of the naive app, measured at the same time. */
  readonly ratio: number;
}

/** Requests per second at which the latency is measured. */
const moderate = 500;

await runCommand(usage, { quick: { type: 'boolean' } }, async ({ quick }) => {
  const [rounds, seconds, warmUpRequests] = quick ? [1, 1, 0] : [5, 5, 100_000];
  const upstream = await startUpstream();
  const ways = await startWays(upstream.url);
  try {
    for (const way of ways) console.log(`${way.name}: verified ${await verifyWay(way, upstream)}`);
    for (const way of ways) await warmUp(way, warmUpRequests);
    const [naive] = ways;
    const measured = new Map(ways.map((way) => [way, [] as Figures[]]));
    for (let round = 0; round < rounds; round += 1)
      for (const [way, figures] of measured) figures.push(await figuresOf(way, naive, seconds));
    const rows = [...measured].map(([{ name }, all]) => [name, ...mediansOf(all)]);
    const head = ['way', 'requests/s', 'CPU, µs', 'ratio to naive', 'p50, p99 at 500/s, ms', 'memory, MB'];
    console.log(`\n${cpus().length} cores (${cpus()[0]?.model}), Node ${process.version}\n`);
    console.log(markdown([head, ...rows]));
  } finally {
    for (const { stop } of ways) await stop();
    await upstream.stop();
  }
  return true;
});

async function figuresOf(way: Way, naive: Way, seconds: number): Promise<Figures> {
  const full = { seconds, connections: 32 };
  const alone = await measure(way, full);
  // Longer, since p99 is that of the slowest 50.
  const load = { seconds: 2 * seconds, connections: 50, rate: moderate };
  const paced = alone.rate > 1.3 * moderate ? await measure(way, load) : undefined;
  const [own, others] = await Promise.all([measure(way, full), measure(naive, full)]);
  return { ...alone, paced, ratio: own.cpu / others.cpu };
}

function mediansOf(all: readonly Figures[]): string[] {
  const median = (of: (figures: Figures) => number | undefined): string => {
    const sorted = all.flatMap((one) => of(one) ?? []).sort((a, b) => a - b);
    return figure(sorted[Math.floor(sorted.length / 2)]);
  };
  return [
    median(({ rate }) => rate),
    median(({ cpu }) => cpu),
    median(({ ratio }) => ratio),
    `${median(({ paced }) => paced?.p50)}, ${median(({ paced }) => paced?.p99)}`,
    median(({ memory }) => memory),
  ];
}

/** Three digits, or `-` for what was not measured. */
function figure(value = Number.NaN): string {
  const maximumSignificantDigits = value < 1000 ? 3 : 4;
  return Number.isFinite(value) ? value.toLocaleString('en', { maximumSignificantDigits }) : '-';
}
