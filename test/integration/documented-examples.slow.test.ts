import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect } from '@jest/globals';
import { Processes } from '../support/demo.ts';
import { itWhere } from '../support/requires.ts';
import { root } from '../support/sources.ts';

const processes = new Processes();
const { folder } = processes;

beforeAll(() => {
  cpSync(join(root, 'docs/examples'), folder, { recursive: true });
  const countersign = join(folder, 'countersign');
  writeFileSync(countersign, `#!/bin/sh\nexec "${process.execPath}" "${join(root, 'src/main.ts')}" "$@"\n`);
  chmodSync(countersign, 0o755);
});
afterAll(() => processes.clear());

/** `it` where the program is installed. */
const itRuns = (program: string) =>
  itWhere(
    spawnSync(program, [program === 'go' ? 'version' : '--version']).status === 0,
    `${program} is not installed`,
  );

describe('docs/examples/testing', () => {
  const recipes = [
    ['node', ['--test', 'payments.test.mjs'], /^ℹ pass 3$/m],
    ['python3', ['-m', 'unittest', 'test_payments.py'], /^OK$/m],
    ['go', ['test', 'payments_test.go'], /^ok/m],
    ['java', ['PaymentsTest.java'], /^2 tests passed$/m],
  ] as const;
  for (const [program, argv, expected] of recipes) {
    itRuns(program)(
      `${argv.at(-1)} passes`,
      async () => {
        const { code, out } = await run('testing', program, argv);
        expect([code, out]).toEqual([0, expect.stringMatching(expected)]);
      },
      120_000,
    );
  }
});

function run(
  subfolder: string,
  program: string,
  argv: readonly string[],
): Promise<{ code: unknown; out: string }> {
  const path = [folder, dirname(process.execPath), process.env['PATH'] ?? ''].join(delimiter);
  // Under this variable, node --test reports to the test runner that set it.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  return new Promise((resolve) => {
    execFile(
      program,
      argv,
      { cwd: join(folder, subfolder), env: { ...env, PATH: path, NODE_OPTIONS: '' } },
      (error, out, err) => resolve({ code: error?.code ?? 0, out: out + err }),
    );
  });
}
