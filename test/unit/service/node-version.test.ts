import { expect, it } from '@jest/globals';
import { keepsResponsesApart } from '../../../src/preflight.cjs';
import { nodeVersionFault } from '../../../src/service/start-checks.ts';

it.each([
  ['v20.20.2', false],
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
  ['v27.0.0', true],
  ['v28.0.0', true],
])('Node %s keeps responses apart: %s', (version, good) => {
  expect(keepsResponsesApart(version)).toBe(good);
  const lines: string[] = [];
  const log = { message: (_level: string, text: string) => void lines.push(text) };
  const start = (allowUnsafeNode: boolean, isDemo: boolean) =>
    nodeVersionFault({ allowUnsafeNode }, isDemo, log, version);
  const text = `Node ${version} can give a request the response to another one (CVE-2026-48931). Use 22.23.4, 24.22.1, 26.12.1 or later;`;
  expect(start(false, false)).toEqual(good ? undefined : expect.stringContaining(text));
  expect(lines).toEqual([]);
  expect([start(true, false), start(false, true)]).toEqual([undefined, undefined]);
  expect(lines).toHaveLength(good ? 0 : 2);
});
