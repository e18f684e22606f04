import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from '@jest/globals';
import { z } from 'zod';
import { printNumbers } from '../support/load.ts';

const program = fileURLToPath(new URL('../support/ten-thousand-logins.ts', import.meta.url));
const costShape = z.object({
  bytes: z.number(),
  readsToFill: z.number(),
  readsWhenWarm: z.number(),
  results: z.record(z.string(), z.number()),
  medianMicroseconds: z.number(),
  p99Microseconds: z.number(),
});

it('ten thousand logins take less than 200 MB, and no read and no measurable time once they are warm', () => {
  const env = { ...process.env, NODE_OPTIONS: '' };
  const printed = execFileSync(process.execPath, ['--expose-gc', program], { env, encoding: 'utf8' });
  const cost = costShape.parse(JSON.parse(printed));
  printNumbers('Ten thousand logins in memory, each with a control key and an RSA key of 2048 bits', {
    'resident memory, MB': Math.round(cost.bytes / 2 ** 20),
    'of one login, kB': Math.round(cost.bytes / 2 ** 10 / cost.readsToFill),
    'taking a warm key, median, µs': Math.round(cost.medianMicroseconds),
    'taking a warm key, p99, µs': Math.round(cost.p99Microseconds),
  });
  expect(cost.readsToFill).toBe(10_000);
  expect(cost.bytes).toBeGreaterThan(10 * 2 ** 20);
  expect(cost.bytes).toBeLessThan(200 * 2 ** 20);
  expect(cost.results).toEqual({ fetched: 10_000, fresh: 20_000 });
  expect(cost.readsWhenWarm).toBe(0);
  expect(cost.p99Microseconds).toBeLessThan(1000);
}, 60_000);
