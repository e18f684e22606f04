import { spawnSync } from 'node:child_process';
import { expect } from '@jest/globals';
import { vectorPath } from './vectors.ts';

/** An npm script with these arguments prints this message and where the options are described, and exits with 2. */
export function expectUsageError(
  program: 'abuse' | 'faults' | 'rotation-model',
  args: string[],
  message: string,
): void {
  const main = vectorPath(`../${program}/main.ts`);
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], { encoding: 'utf8' });
  const [first, ...others] = stderr.trimEnd().split('\n');
  expect({ status, stdout, others }).toEqual({
    status: 2,
    stdout: '',
    others: [`Run "npm run ${program} -- --help" for the options.`],
  });
  expect(first).toContain(message);
}
