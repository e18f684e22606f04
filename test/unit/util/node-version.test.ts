import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { isPatchedNode } from '../../../src/util/node-version.cjs';
import { root } from '../../support/sources.ts';

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
])('Node %s never takes bytes from before a request for its response: %s', (version, isPatched) => {
  expect(isPatchedNode(version)).toBe(isPatched);
});

it('package.json and the documentation name the same versions', () => {
  const read = (file: string): string => readFileSync(join(root, file), 'utf8');
  const [, ...versions] =
    /"node": "\^([\d.]+) \|\| \^([\d.]+) \|\| >=([\d.]+)"/.exec(read('package.json')) ?? [];
  expect(versions).toHaveLength(3);
  for (const version of versions) {
    const [, line = '', patch] = /^(\d+\.\d+\.)(\d+)$/.exec(version) ?? [];
    const before = `v${line}${Number(patch) - 1}`;
    expect([version, isPatchedNode(`v${version}`), isPatchedNode(before)]).toEqual([version, true, false]);
    for (const file of ['README.md', 'SECURITY.md', 'docs/operations.md', 'src/service/start-checks.ts'])
      expect(read(file)).toContain(version);
  }
});
