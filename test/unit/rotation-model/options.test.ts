import { spawnSync } from 'node:child_process';
import { expect, it } from '@jest/globals';
import { readOptions } from '../../rotation-model/options.ts';
import { expectUsageError } from '../../support/usage-error.ts';
import { vectorPath } from '../../support/vectors.ts';

it('npm run rotation-model reports what is wrong and where the options are described', () =>
  expectUsageError('rotation-model', ['--seeds', '5'], "Unknown option '--seeds'"));

it.each([
  [['--seed', 'x'], '--seed must be a whole number from 1, not "x"'],
  [['--seed', ''], '--seed must be a whole number from 1, not ""'],
  [['--schedules', '1e3'], '--schedules must be a whole number from 1, not "1e3"'],
  [['--schedules', '0'], '--schedules must be a whole number from 1, not "0"'],
  [['--family', 'x'], '--family must be ordinary, hostile, odd, not "x"'],
])('%j is rejected', (args, message) => {
  expect(() => readOptions(args)).toThrow(message);
});

it('npm run rotation-model counts the requests of its schedules', () => {
  const main = vectorPath('../rotation-model/main.ts');
  const args = [main, '--schedules', '3', '--seed', '3'];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(status).toBe(0);
  expect(stdout).toMatch(/^ +\d+ {2}hostile: payments$/m);
  expect(stdout).toMatch(/^3 schedules from seed 3 in \d+ s: 0 with violations$/m);
});
