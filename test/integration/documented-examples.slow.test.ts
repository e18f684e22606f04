import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { delimiter, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
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

const processes = new Processes();
const { folder } = processes;
let demo: RunningDemo;

beforeAll(async () => {
  cpSync(join(root, 'docs/examples'), folder, { recursive: true });
  const countersign = join(folder, 'countersign');
  writeFileSync(countersign, `#!/bin/sh\nexec "${process.execPath}" "${join(root, 'src/main.ts')}" "$@"\n`);
  chmodSync(countersign, 0o755);
  demo = await processes.startDemo();
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

/** What a client says about each `client_orderid` of docs/payments.md. */
const decisions: Readonly<Record<string, string>> = {
  rejected: 'rejected, may be sent again under this order ID once the cause is fixed',
  'order-7': 'approved',
  'server-error': 'approved',
  'lost-response': 'approved',
  declined: 'declined',
  filtered: 'filtered',
  'in-error': 'a person decides: in error',
  ambiguous: 'a person decides: ambiguous',
  unknown: 'a person decides: unknown',
  'found-later': 'approved',
  'never-made': 'a person decides: not found',
  'processing-at-first': 'approved',
  'chain-declined': 'approved',
  processing: 'a person decides: processing',
  'no-status-at-first': 'approved',
  'no-status': 'a person decides: no response',
};
/** In place of 15 minutes; more than the two seconds of the scenario. */
const patience = '6';
const readOnly = [
  'manager-balance: 200',
  'order-status: approved',
  'order-status-group: approved',
  'pan-eligibility-send: 200',
];

it('docs/payments.md has every row that the clients are run through', () => {
  const page = readFileSync(join(root, 'docs/payments.md'), 'utf8');
  const cells = [...page.matchAll(/^\|.*\|(.*)\|$/gm)].map(([, cell = '']) => cell);
  const orders = cells.flatMap((cell) => [...cell.matchAll(/`([a-z0-9-]+)`/g)].map(([, id]) => id));
  expect(new Set(orders)).toEqual(new Set(Object.keys(decisions)));
});

describe('docs/examples/client', () => {
  for (const [program, argv] of clients) {
    itRuns(program)(
      `${argv.at(-1)} decides each row of docs/payments.md, and sends each payment once`,
      async () => {
        await fetch(`${demo.gatewayAdminUrl}/reset`, { method: 'POST' });
        const queue = Object.keys(decisions).values();
        const decided: Record<string, string[]> = {};
        const work = async (): Promise<void> => {
          for (const order of queue) {
            const api = `${demo.proxyUrl}/sandbox/gw`;
            decided[order] = (await run('client', program, [...argv, api, order, patience])).out.split('\n');
          }
        };
        await Promise.all([work(), work(), work(), work()]);
        const rows = Object.entries(decisions).map(
          ([order, decision]) => [order, [...readOnly, `transfer ${order}: ${decision}`, '']] as const,
        );
        expect(decided).toEqual(Object.fromEntries(rows));
        const sent = await sentTransfers();
        expect([sent.length, new Set(sent)]).toEqual([rows.length, new Set(Object.keys(decisions))]);
      },
      300_000,
    );

    itRuns(program)(
      `${argv.at(-1)} says that what was not sent may be sent again`,
      async () => {
        const { out } = await run('client', program, [
          ...argv,
          `${demo.proxyUrl}/nowhere/gw`,
          'order-8',
          '0',
        ]);
        expect(out.split('\n').at(-2)).toBe(
          'transfer order-8: not sent, may be sent again under this order ID: unknown-route',
        );
      },
      120_000,
    );
  }
});

/** The order IDs of the transfers that the gateway received. */
async function sentTransfers(): Promise<unknown[]> {
  const response = await fetch(`${demo.gatewayAdminUrl}/journal?operation=transfer`);
  const { entries }: { entries: { parameters: { name: string; value: string }[] }[] } = JSON.parse(
    await response.text(),
  );
  return entries.map(({ parameters }) => parameters.find(({ name }) => name === 'client_orderid')?.value);
}

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

describe('docs/examples/client, of a gateway with another product', () => {
  const server = createServer((request, response) => {
    const [product] = request.url?.split('/').slice(2) ?? [];
    const fields = { status: 'error', [`${product}-order-id`]: '7' };
    const isJson = request.headers.accept === 'application/json';
    response.end(isJson ? JSON.stringify(fields) : new URLSearchParams(fields).toString());
  });
  let listening: Awaited<ReturnType<typeof listen>>;
  beforeAll(async () => {
    listening = await listen(server);
  });
  afterAll(() => listening.close());

  for (const [program, argv] of clients) {
    itRuns(program).each(['/sandbox/pay', '/live/pg_2/'])(
      `${argv.at(-1)} finds the order ID that the product names: %s`,
      async (path) => {
        const base = `http://127.0.0.1:${listening.port}${path}`;
        const { out } = await run('client', program, [...argv, base, 'order-1', '0']);
        expect(out).toContain('order-status: in error\n');
        expect(out).toContain('transfer order-1: a person decides: in error\n');
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
