import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, expect } from '@jest/globals';
import { itWhere } from '../support/requires.ts';
import { root } from '../support/sources.ts';

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'countersign-recipes-'));
  cpSync(join(root, 'docs/examples/testing'), folder, { recursive: true });
  const countersign = join(folder, 'countersign');
  writeFileSync(countersign, `#!/bin/sh\nexec "${process.execPath}" "${join(root, 'src/main.ts')}" "$@"\n`);
  chmodSync(countersign, 0o755);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const recipes = [
  ['node', ['--test', 'payments.test.mjs'], /^ℹ pass 3$/m],
  ['python3', ['-m', 'unittest', 'test_payments.py'], /^OK$/m],
  ['go', ['test', 'payments_test.go'], /^ok/m],
  ['java', ['PaymentsTest.java'], /^2 tests passed$/m],
] as const;

for (const [program, argv, expected] of recipes) {
  const isInstalled = spawnSync(program, [program === 'go' ? 'version' : '--version']).status === 0;
  itWhere(isInstalled, `${program} is not installed`)(
    `the recipe for ${program} in docs/testing-your-service.md passes`,
    async () => {
      const { code, out } = await run(program, argv);
      expect([code, out]).toEqual([0, expect.stringMatching(expected)]);
    },
    120_000,
  );
}

function run(program: string, argv: readonly string[]): Promise<{ code: unknown; out: string }> {
  const path = [folder, dirname(process.execPath), process.env['PATH'] ?? ''].join(delimiter);
  // A test runner that is told of another one would report to it.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  return new Promise((resolve) => {
    execFile(
      program,
      argv,
      { cwd: folder, env: { ...env, PATH: path, NODE_OPTIONS: '' } },
      (error, out, err) => resolve({ code: error?.code ?? 0, out: out + err }),
    );
  });
}
