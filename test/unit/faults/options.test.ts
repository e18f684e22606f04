import { expect, it } from '@jest/globals';
import { readOptions } from '../../faults/options.ts';
import { expectUsageError } from '../../support/usage-error.ts';

it('npm run faults says what is wrong and where the options are, without a stack', () =>
  expectUsageError('faults', ['--request', '5'], "Unknown option '--request'"));

it.each([
  [['--requests', '0'], '--requests must be a whole number from 1, not "0"'],
  [['--only', 'nothing'], '--only must be one of good,'],
])('%j is rejected', (args, message) => {
  expect(() => readOptions(args)).toThrow(new RegExp(`^${message}`));
});
