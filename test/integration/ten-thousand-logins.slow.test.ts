import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from '@jest/globals';
import { z } from 'zod';
import { printNumbers } from '../support/load.ts';

const program = fileURLToPath(new URL('../support/ten-thousand-logins.ts', import.meta.url));

it('ten thousand logins, each with a control key and an RSA key, take less than 200 MB and one read each', () => {
  const env = { ...process.env, NODE_OPTIONS: '' };
  const printed = execFileSync(process.execPath, ['--expose-gc', program], { env, encoding: 'utf8' });
  const { bytes, reads } = z.object({ bytes: z.number(), reads: z.number() }).parse(JSON.parse(printed));
  printNumbers('Ten thousand logins in memory', {
    'resident memory, MB': Math.round(bytes / 2 ** 20),
    'of one login, kB': Math.round(bytes / 2 ** 10 / reads),
  });
  expect(reads).toBe(10_000);
  expect(bytes).toBeGreaterThan(10 * 2 ** 20);
  expect(bytes).toBeLessThan(200 * 2 ** 20);
}, 60_000);
