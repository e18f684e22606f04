import { execFile, spawnSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Processes } from '../support/demo.ts';
import { post } from '../support/forwarding.ts';
import { itWhere } from '../support/requires.ts';
import { root } from '../support/sources.ts';

const processes = new Processes();
const { folder } = processes;

beforeAll(() => {
  cpSync(join(root, 'docs/examples'), folder, { recursive: true });
  program('countersign', `exec "${process.execPath}" "${join(root, 'src/main.ts')}" "$@"`);
});
afterAll(() => processes.clear());

/** Puts a shell script on the path of the examples. */
function program(name: string, script: string): void {
  writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

/** `it` where the program is installed. */
const itRuns = (program: string) =>
  itWhere(
    spawnSync(program, [program === 'go' ? 'version' : '--version']).status === 0,
    `${program} is not installed`,
  );

describe('docs/examples/testing', () => {
  const recipes = [
    ['node', ['--test', 'payments.test.mjs'], /^ℹ pass 2$/m],
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

it.each([
  ['github-actions.yaml', /registry\.example\/countersign:0\.2\.0 (.+)$/m],
  ['gitlab-ci.yaml', /name: registry\.example\/countersign:0\.2\.0\n.*\n *command: \[(.+)\]$/m],
])(
  'docs/examples/testing/%s starts a demo that is ready under its name, and that its tests find',
  async (name, image) => {
    const job = readFileSync(join(folder, 'testing', name), 'utf8');
    const [command, ...argv] = image.exec(job)?.[1]?.match(/[\w:-]+/g) ?? [];
    const demo = await processes.startDemo(argv, command);
    const [ready = '', api = ''] = [/http:.*\/readyz/, /(?<=COUNTERSIGN_URL: ).*/].map(
      (url) => url.exec(job)?.[0],
    );
    /** At the ports of this demo, in place of 9090 and 8080. */
    const at = (base: string, url: string, method = 'POST') =>
      post(base + new URL(url).pathname, '', { Host: new URL(url).host }, { method });
    expect([new URL(ready).port, new URL(api).port]).toEqual(['9090', '8080']);
    expect(await at(demo.adminUrl, ready, 'GET')).toMatchObject({ status: 200 });
    const balances = await at(demo.proxyUrl, `${api}/api/v2/get-balance/manager/beta`);
    expect(balances.body).toContain('"Main GBP"');
    await demo.stop();
  },
  60_000,
);

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
