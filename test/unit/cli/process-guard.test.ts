import { expect, it } from '@jest/globals';
import { isMended, unsafeSettings } from '../../../src/cli/process-guard.ts';

it.each([
  ['v22.18.0', false],
  ['v24.22.0', false],
  ['v24.22.1', true],
  ['v24.23.0', true],
  ['v25.9.0', false],
  ['v26.10.0', false],
  ['v26.12.0', false],
  ['v26.12.1', true],
  ['v28.0.0', true],
])('Node %s has its kept-alive connections mended: %s', (version, mended) => {
  expect(isMended(version)).toBe(mended);
});

it.each([
  [{ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, 1],
  [{ NODE_TLS_REJECT_UNAUTHORIZED: '1' }, 0],
  [{ NODE_DEBUG: 'http' }, 1],
  [{ NODE_DEBUG: '' }, 0],
  [{}, 0],
])('the settings %j are unsafe in %d ways', (settings, count) => {
  expect(unsafeSettings((name) => new Map(Object.entries(settings)).get(name))).toHaveLength(count);
});
