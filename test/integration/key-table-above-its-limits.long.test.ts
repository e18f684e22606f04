import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { z } from 'zod';
import { printNumbers } from '../support/load.ts';

const program = fileURLToPath(new URL('../support/table-under-load.ts', import.meta.url));
const shape = z.object({
  unhandled: z.array(z.string()),
  reads: z.number(),
  heaps: z.array(z.number()),
  isBack: z.boolean(),
  results: z.record(z.string(), z.number()),
});

it.each([1, 2])(
  '200,000 requests while the source fails, hangs and responds late: each ends, and memory is flat (seed %i)',
  async (seed) => {
    const args = ['--expose-gc', program, '200000', String(seed)];
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    const { unhandled, reads, heaps, isBack, results } = shape.parse(JSON.parse(stdout));
    printNumbers('200,000 requests above every limit', {
      ...results,
      'reads of the source': reads,
      'heap, MB': heaps.map((bytes) => Math.round(bytes / 1_048_576)),
    });
    expect(unhandled).toEqual([]);
    expect(Object.values(results).reduce((sum, count) => sum + count, 0)).toBe(200_000);
    expect(Object.keys(results).sort()).toEqual([
      'accepted',
      'key-missing',
      'key-source-unavailable',
      'overloaded',
      'rejected',
      'silent',
    ]);
    const [first = 0] = heaps;
    expect(Math.max(...heaps) - first).toBeLessThan(15 * 1_048_576);
    expect(isBack).toBe(true);
  },
  300_000,
);
