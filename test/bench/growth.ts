import { type Load, type Measurement, measure, token, warmUp, watchOthers } from './measure.ts';
import { callerOf, startCountersign } from './proxies.ts';
import { figure, percent, table } from './report.ts';
import { type Way, wayThrough } from './ways.ts';

interface Point extends Partial<Load> {
  readonly body?: string;
  /** Laid over the configuration. */
  readonly config?: object;
  /** Requests before the measurement; as many as it takes to warm up unless given. */
  readonly before?: number;
}

const many = <Item>(count: number, item: (at: number) => Item): Item[] =>
  Array.from({ length: count }, (_, at) => item(at));
const operation = { signature: 'HMAC-SHA1', loginFrom: 'path', readOnly: true };

/** What may grow, to which sizes, and how. */
const dimensions: Readonly<Record<string, readonly [sizes: readonly number[], at: (size: number) => Point]>> =
  {
    parameters: [[1, 10, 100, 1000], (size) => ({ body: many(size, (at) => `p${at}=1`).join('&') })],
    'bytes of the form': [[1024, 8192, 65_536], (size) => ({ body: `note=${'x'.repeat(size - 5)}` })],
    logins: [[1, 100, 10_000], (logins) => ({ logins })],
    'connections, 500 requests/s': [[50, 500, 5000], (connections) => ({ connections, rate: 500 })],
    callers: [
      [1, 100, 1000],
      (size) => ({ config: { callers: many(size, (at) => callerOf(`c${at}`, at === 0 ? token : `${at}`)) } }),
    ],
    operations: [
      [5, 100, 1000],
      (size) => {
        const added = many(size - 5, (at) => [`o${at}`, { ...operation, path: `/api/o${at}/{login}` }]);
        return { config: { operations: Object.fromEntries(added) } };
      },
    ],
    'requests before': [[1, 100_000, 500_000], (before) => ({ before })],
  };

interface GrowthOptions {
  readonly seconds: number;
  /** Of each dimension, so many at most. */
  readonly sizes: number;
  readonly warmUpRequests: number;
}

/** HMAC through Countersign as one thing after the other grows, in a new process for each size. */
export async function measureGrowth(upstream: string, options: GrowthOptions): Promise<string> {
  const disturbance = watchOthers();
  const rows: Record<string, string>[] = [];
  for (const [growing, [sizes, at]] of Object.entries(dimensions)) {
    for (const size of sizes.slice(0, options.sizes)) {
      const { body, config, before, ...load } = at(size);
      const countersign = await startCountersign(upstream, 2048, config, load.logins);
      const usual = wayThrough('Countersign', 'HMAC', countersign);
      const way = { ...usual, body: body ?? usual.body };
      try {
        // Some sizes are too slow for the requests of a warm-up.
        const atMost = before === undefined ? { maxSeconds: 30, ...load } : {};
        await warmUp(way, before ?? options.warmUpRequests, atMost);
        const measured = await measureThrice(way, { seconds: options.seconds, connections: 32, ...load });
        const { cpu, p50, p99, memory } = measured;
        const latency = { 'p50, ms': figure(p50), 'p99, ms': figure(p99) };
        const cost = { 'CPU, µs': figure(cpu), 'memory, MB': figure(memory) };
        rows.push({ growing, size: size.toLocaleString('en'), ...cost, ...latency });
        console.log(`${growing}, ${size}: ${figure(cpu)} µs`);
      } finally {
        await countersign.stop();
      }
    }
  }
  return `The median of three measurements by CPU. Other processes and the hypervisor used ${percent(disturbance())} of the CPU.\n\n${table(rows)}`;
}

/** The one with the median CPU: other guests of the host disturb some. */
async function measureThrice(way: Way, load: Load): Promise<Measurement> {
  const measured = [await measure(way, load), await measure(way, load), await measure(way, load)] as const;
  return measured.toSorted((a, b) => a.cpu - b.cpu)[1] ?? measured[1];
}
