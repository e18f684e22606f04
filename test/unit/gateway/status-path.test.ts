import { expect, it } from '@jest/globals';
import { isStatusPath } from '../../../src/gateway/status-path.ts';

it.each([
  '/sandbox/gw/api/v4/status/1234',
  '/sandbox/gw/api/v4/status/group/77',
  '/production/pay/api/v5/status/a%40b.c~d_e-f',
])('%s is the path of a query', (path) => {
  expect(isStatusPath(path)).toBe(true);
});

// A log line may be made by anyone: what is sent to such a path must be no payment, and go to Countersign.
it.each([
  '/sandbox/gw/api/v4/transfer/1234',
  '/sandbox/gw/api/v4/transfer/status/1234',
  '/sandbox/gw/api/v4/status/..',
  '/sandbox/gw/api/v4/status/../transfer/1234',
  '/sandbox/gw/api/v4/status/%2e%2e%2ftransfer',
  '/sandbox/gw/api/v4/status/1234?a=b',
  '/sandbox/gw/api/v4/status/1234#',
  '/sandbox/gw/api/v4/status/1234/5',
  '//gateway.example/gw/api/v4/status/1234',
  'https://gateway.example/sandbox/gw/api/v4/status/1234',
  '/sandbox/gw/api/v4/status/',
  '/sandbox/gw/api/v4/status/12\n34',
  '',
])('%j is none', (path) => {
  expect(isStatusPath(path)).toBe(false);
});
