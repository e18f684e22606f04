import { texts } from '../support/client-inputs.ts';
import { growthProblem } from '../support/cpu-time.ts';
import { paths } from '../support/forwarding.ts';
import { Random } from '../support/random.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import type { ProcessWatch } from './process-watch.ts';
import type { Setting } from './setting.ts';
import type { WayName } from './ways.ts';
import { formOf, marks } from './with-credentials.ts';
import { headOf } from './without-credentials.ts';

interface Inputs {
  /** Bytes; each twice the one before. */
  readonly sizes: readonly number[];
  readonly request: (shape: string, bytes: number) => string;
}

const form = (shape: string, bytes: number, asName: boolean): string =>
  formRequest(paths.transfer.replace('1234', '1000'), formOf(shape, bytes, asName), [
    'Authorization: Bearer greedy',
  ]);

/** The inputs of a way whose cost is measured by size, besides what the victim sees. */
const inputs: Readonly<Partial<Record<WayName, Readonly<Record<string, Inputs>>>>> = {
  names: {
    name: { sizes: [16_000, 32_000, 64_000], request: (shape, bytes) => form(shape, bytes, true) },
    value: { sizes: [16_000, 32_000, 64_000], request: (shape, bytes) => form(shape, bytes, false) },
  },
  heads: { head: { sizes: [3_500, 7_000, 14_000], request: headOf } },
};

/** Milliseconds of CPU that a request takes whatever its size, which say nothing about growth. */
const floor = 4;
/** Shapes of a way by the seed, besides the first one. */
const drawn = 3;
const repetitions = 5;

/**
 * CPU time of the process for single requests of growing size, with no other client.
 *
 * @returns what grows faster than the size, or takes too long
 */
export async function measureGrowth(
  way: WayName,
  { target }: Setting,
  watch: ProcessWatch,
  seed: number,
): Promise<string[]> {
  const random = new Random(seed, way, 'growth');
  const problems: string[] = [];
  for (const [place, { sizes, request }] of Object.entries(inputs[way] ?? {})) {
    const shapes = [marks, ...Array.from({ length: drawn }, () => random.pick(Object.keys(texts)))];
    for (const shape of shapes) {
      const problem = await growthProblem(sizes.length, floor, async (size) => {
        const bytes = request(shape, sizes[size] ?? 0);
        const before = watch.cpuTime;
        for (let count = 0; count < repetitions; count += 1) await send(target.url, bytes);
        const cpu = (watch.cpuTime - before) / repetitions;
        return { cpu, hold: cpu };
      });
      if (problem !== undefined) problems.push(`a ${place} of ${shape} ${problem}`);
    }
  }
  return problems;
}

async function send(url: string, bytes: string): Promise<void> {
  const connection = await RawConnection.open(url);
  await connection.send(bytes).responseOrEnd(10_000);
  connection.close();
}
