import { expect, it } from '@jest/globals';
import { builtInOperations, mergeOperations } from '../../../src/gateway/operations.ts';

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
    ['verify-callback', true, false],
  ]);
});

it('a configured operation is a payment that may repeat parameters, unless it says otherwise', () => {
  const refund = { path: '/refund', signature: 'HMAC-SHA1', loginFrom: 'header' } as const;
  const named = (name: string) => (one: { readonly name: string }) => one.name === name;
  const defaults = {
    readOnly: false,
    retryOn403: false,
    once: false,
    allowRepeatedParameters: true,
    parameters: {},
  };
  expect(mergeOperations([{ refund }]).find(named('refund'))).toEqual({
    ...defaults,
    ...refund,
    name: 'refund',
    routes: [['refund']],
  });
  const strict = mergeOperations([{ refund }, { refund: { allowRepeatedParameters: false } }]);
  expect(strict.find(named('refund'))).toMatchObject({ ...refund, allowRepeatedParameters: false });
});
