import { it } from '@jest/globals';
import { expectUsageError } from '../../support/usage-error.ts';

it.each([
  [['--requests', '0'], '--requests must be a whole number from 1, not "0"'],
  [['--only', 'nothing'], '--only must be one of good,'],
  [['--request', '5'], "Unknown option '--request'"],
])('npm run faults with %j says what is wrong and where the options are, without a stack', (args, message) =>
  expectUsageError('faults', args, message),
);
