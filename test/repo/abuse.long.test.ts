import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { root } from '../support/sources.ts';

/** Short, and with generous limits, since other tests take the cores too. */
it('npm run abuse attacks, reports, and finds that generous limits hold', async () => {
  const options = ['--seconds', '1', '--slack', '20000', '--only', 'incomplete-heads,pipelining,slow-bodies'];
  const run = promisify(execFile)(process.execPath, [`${root}test/abuse/main.ts`, ...options]);
  const { stdout } = await run.catch((failed: { stdout: string }) => failed);
  expect(stdout).toContain('held: 3 ways');
  expect(stdout.match(/\| p99, ms \| [\d.]+ \| [\d.]+ \| [\d.]+ \| 20250 \|/g)).toHaveLength(3);
  expect(stdout.match(/memory: \d{2,3} MiB; attacker saw: [1-9]/g)).toHaveLength(3);
}, 120_000);
