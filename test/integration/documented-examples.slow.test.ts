import { execFile, spawnSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { Processes } from '../support/demo.ts';
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

/** What a job of docs/examples/testing does: the arguments of the image, and then commands in a shell. */
interface Job {
  readonly image: readonly string[];
  readonly commands: readonly string[];
  /** Of the tests. */
  readonly url: string;
}

interface Step {
  readonly run?: string;
  readonly env?: { readonly COUNTERSIGN_URL: string };
}

const image = 'registry.example/countersign:0.2.0';
const jobs: Readonly<Record<string, (yaml: string) => Job>> = {
  'github-actions.yaml': (yaml) => {
    const workflow: { jobs: { test: { steps: Step[] } } } = parse(yaml);
    const steps = workflow.jobs.test.steps.filter(({ run }) => run !== undefined);
    const [start = '', ...commands] = steps.map(({ run = '' }) => run);
    const [, argv = ''] = start.split(`docker run --detach --network host ${image} `);
    return { image: argv.split(' '), commands, url: steps.at(-1)?.env?.COUNTERSIGN_URL ?? '' };
  },
  'gitlab-ci.yaml': (yaml) => {
    interface Pipeline {
      test: {
        services: { name: string; alias: string; command: string[] }[];
        variables: { COUNTERSIGN_URL: string };
        script: string[];
      };
    }
    const { test }: Pipeline = parse(yaml);
    const [service] = test.services;
    expect(service).toMatchObject({ name: image, alias: 'countersign' });
    return { image: service?.command ?? [], commands: test.script, url: test.variables.COUNTERSIGN_URL };
  },
};

// Without those services: curl connects to a demo on free ports, and the tests are a query of it.
it.each(Object.keys(jobs))(
  'docs/examples/testing/%s starts a demo, and the tests find it',
  async (name) => {
    const read = jobs[name]?.(readFileSync(join(folder, 'testing', name), 'utf8'));
    const { image: [command, ...argv] = [], commands = [], url = '' } = read ?? {};
    const demo = await processes.startDemo(argv, command);
    const { hostname } = new URL(url);
    const [proxy, admin] = [demo.proxyUrl, demo.adminUrl].map((address) => new URL(address).port);
    const ports = [`8080:127.0.0.1:${proxy}`, `9090:127.0.0.1:${admin}`];
    writeFileSync(join(folder, '.curlrc'), ports.map((to) => `connect-to = "${hostname}:${to}"\n`).join(''));
    program('npm', `test "$1" = test && curl -sS -X POST ${url}/api/v2/get-balance/manager/beta`);
    const { code, out } = await run('testing', 'sh', ['-ec', `export CURL_HOME=..\n${commands.join('\n')}`]);
    expect([code, out]).toEqual([0, expect.stringContaining('"Main GBP"')]);
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
