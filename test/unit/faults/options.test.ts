import { spawnSync } from 'node:child_process';
import { expect, it } from '@jest/globals';
import { vectorPath } from '../../support/vectors.ts';

it.each([
  [['--requests', '0'], '--requests must be a whole number from 1, not "0"'],
  [['--only', 'nothing'], '--only must be one of good,'],
  [['--request', '5'], "Unknown option '--request'"],
])(
  'npm run faults with %j reports what is wrong and where the options are described, without a stack',
  (args, message) => {
    const main = vectorPath('../faults/main.ts');
    const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], { encoding: 'utf8' });
    const [first, ...others] = stderr.trimEnd().split('\n');
    expect({ status, stdout, others }).toEqual({
      status: 2,
      stdout: '',
      others: ['Run "npm run faults -- --help" for the options.'],
    });
    expect(first).toContain(message);
  },
);
