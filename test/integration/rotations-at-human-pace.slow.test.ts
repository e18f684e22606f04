import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { root } from '../support/sources.ts';

/** At the same time. With longer pauses and more instances: `npm run rotations`. */
it.concurrent.each([
  [['--pauses', '0,5']],
  [['--pauses', '5', '--orders', 'Vault first', '--traffic', 'payments']],
])(
  'rotations in any order, seconds apart, cost no more than promised: %j',
  async (args) => {
    const program = [`${root}/test/rotations/main.ts`, '--rate', '60', ...args];
    const run = promisify(execFile)(process.execPath, program);
    const { stdout } = await run.catch((failed: { stdout: string }) => failed);
    expect(stdout).toMatch(/\| row \| order .* requests\/s/s);
    expect(stdout).not.toContain('BROKEN');
  },
  120_000,
);
