import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { delimiter, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect } from '@jest/globals';
import { Processes, type RunningDemo } from '../support/demo.ts';
import { listen } from '../support/listening.ts';
import { itWhere } from '../support/requires.ts';
import { root } from '../support/sources.ts';

const clients = [
  ['node', ['client.mjs']],
  ['python3', ['client.py']],
  ['go', ['run', 'client.go']],
  ['java', ['Client.java']],
] as const;
/** Each client has other orders: two with the same ID would be ambiguous. */
const faults = clients
  .flatMap(([program]) => [
    `  - { operation: transfer, client_orderid: lost-${program}, fault: reset }\n`,
    `  - { operation: transfer, client_orderid: broken-${program}, fault: status-500 }\n`,
  ])
  .join('');

const processes = new Processes();
const { folder } = processes;
let demo: RunningDemo;

beforeAll(async () => {
  cpSync(join(root, 'docs/examples'), folder, { recursive: true });
  const countersign = join(folder, 'countersign');
  writeFileSync(countersign, `#!/bin/sh\nexec "${process.execPath}" "${join(root, 'src/main.ts')}" "$@"\n`);
  chmodSync(countersign, 0o755);
  const scenario = readFileSync(join(root, 'config/scenario.yaml'), 'utf8');
  writeFileSync(join(folder, 'scenario.yaml'), scenario.replace(/^faults:\n/m, `faults:\n${faults}`));
  demo = await processes.startDemo(['--scenario', join(folder, 'scenario.yaml')]);
}, 60_000);
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

describe('docs/examples/client', () => {
  for (const [program, argv] of clients) {
    itRuns(program).each(['approved', 'lost', 'broken'])(
      `${argv.at(-1)} knows what happened to a transfer: %s`,
      async (name) => {
        const order = `${name}-${program}`;
        const api = `${demo.proxyUrl}/sandbox/gw`;
        const { code, out } = await run('client', program, [...argv, api, order]);
        expect([code, out.split('\n')]).toEqual([
          0,
          [
            'manager-balance: 200',
            'order-status: approved',
            'order-status-group: approved',
            'pan-eligibility-send: 200',
            `transfer ${order}: approved`,
            '',
          ],
        ]);
      },
      120_000,
    );
  }
});

describe('docs/examples/client, with a connection that breaks and a response that is no form', () => {
  const broken = {
    truncated: (response: ServerResponse) => {
      response.writeHead(200, { 'Content-Length': 100, 'Countersign-Outcome': 'answered' });
      response.write('type=', () => response.socket?.destroySoon());
    },
    garbage: (response: ServerResponse) => response.socket?.end('this is not HTTP\r\n\r\n'),
  };
  const queried = new Set<string>();
  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const id = new URLSearchParams(await text(request)).get('client_orderid') ?? '';
    if (request.url?.includes('/transfer/')) {
      if (id.startsWith('truncated')) broken.truncated(response);
      else broken.garbage(response);
    } else if (queried.has(id)) {
      const isJson = request.headers.accept === 'application/json';
      response.end(isJson ? '{"status":"approved"}' : 'type=status-response\n&status=approved\n');
    } else {
      queried.add(id);
      response.end('<html>Try again</html>');
    }
  }
  const server = createServer((request, response) => void respond(request, response));
  let listening: Awaited<ReturnType<typeof listen>>;
  beforeAll(async () => {
    listening = await listen(server);
  });
  afterAll(() => listening.close());

  for (const [program, argv] of clients) {
    itRuns(program).each(Object.keys(broken))(
      `${argv.at(-1)} queries the status: %s`,
      async (name) => {
        const order = `${name}-${program}`;
        const { code, out } = await run('client', program, [
          ...argv,
          `http://127.0.0.1:${listening.port}`,
          order,
        ]);
        expect([code, out.split('\n').at(-2)]).toEqual([0, `transfer ${order}: approved`]);
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
