import { expect, it } from '@jest/globals';
import { builtInOperations } from '../../../src/gateway/operations.ts';

it('of the built-in operations only read-only ones are retried', () => {
  const flags = Object.entries(builtInOperations).map(([name, { readOnly, retryOn403 }]) => [
    name,
    readOnly,
    retryOn403,
  ]);
  expect(flags).toEqual([
    ['manager-balance', true, true],
    ['order-status', true, true],
    ['order-status-group', true, true],
    ['pan-eligibility-send', false, false],
    ['transfer', false, false],
  ]);
});
