import { expect, it } from '@jest/globals';
import { isPatchedNodeVersion } from '../../../src/service/start-checks.ts';

it.each([
  ['v22.18.0', false],
  ['v22.23.3', false],
  ['v22.23.4', true],
  ['v22.24.0', true],
  ['v23.11.0', false],
  ['v24.22.0', false],
  ['v24.22.1', true],
  ['v24.23.0', true],
  ['v25.9.0', false],
  ['v26.10.0', false],
  ['v26.12.0', false],
  ['v26.12.1', true],
  ['v28.0.0', true],
])('Node %s has patched keep-alive connections: %s', (version, patched) => {
  expect(isPatchedNodeVersion(version)).toBe(patched);
});
