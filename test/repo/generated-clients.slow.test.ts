import { execFile } from 'node:child_process';
import { cpSync, existsSync, readFileSync, realpathSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Processes, type RunningDemo } from '../support/demo.ts';
import { blocksOf } from '../support/doc-examples.ts';
import { findProgram } from '../support/find-program.ts';
import { Folder } from '../support/folder.ts';
import { type Listening, listen } from '../support/listening.ts';
import { describeWith } from '../support/requires.ts';
import { root } from '../support/sources.ts';

// A client is generated from docs/openapi.yaml and runs the function of docs/calling.md against the demo: nothing throws while
// parsing, and the outcome is readable, whatever the gateway or something on the way responds.

/** By order ID: faults of the demo's gateway, and what each function returns: outcome, status, reason. */
const atTheDemo = {
  success: { expected: 'answered 200 -' },
  'lost-response': { fault: 'reset', expected: 'unknown 502 gateway-reset' },
  'gateway-403-in-HTML': { fault: 'status-403', expected: 'answered 403 -' },
  'gateway-500': { fault: 'status-500', expected: 'answered 500 -' },
} as const;

/** Responses that the demo does not have. */
const atAStub: Readonly<Record<string, { expected: string; respond: (response: ServerResponse) => void }>> = {
  'reason-newer-than-the-client': {
    expected: 'not-sent 503 invented-later',
    respond: (response) => {
      response.writeHead(503, {
        'Content-Type': 'application/problem+json',
        'Countersign-Outcome': 'not-sent',
      });
      const own = { type: 'urn:countersign:error:invented-later', title: 'New', status: 503, detail: 'New.' };
      const requestId = '6d0b1a9c-52a6-4d1b-a7d8-0c8f9a4b2f11';
      response.end(JSON.stringify({ ...own, reason: 'invented-later', outcome: 'not-sent', requestId }));
    },
  },
  'HTML-with-a-success': {
    expected: 'answered 200 -',
    respond: (response) => {
      response.writeHead(200, { 'Content-Type': 'text/html', 'Countersign-Outcome': 'answered' });
      response.end('<html>Maintenance</html>');
    },
  },
  'response-of-a-mesh': {
    expected: 'unknown 503 -',
    respond: (response) => {
      response.writeHead(503, { 'Content-Type': 'text/plain', 'X-Request-Id': 'not-a-uuid' });
      response.end('upstream connect error');
    },
  },
  'truncated-response': {
    expected: 'unknown - -',
    respond: (response) => {
      response.writeHead(200, {
        'Content-Type': 'text/html',
        'Content-Length': 100,
        'Countersign-Outcome': 'answered',
      });
      response.write('type=', () => response.socket?.destroySoon());
    },
  },
};

const expected = Object.fromEntries([
  ...Object.entries({ ...atTheDemo, ...atAStub }).map(([order, one]) => [order, one.expected] as const),
  ['not-sent', 'not-sent 404 unknown-route'] as const,
]);

const processes = new Processes();
let demo: RunningDemo;
let stub: Listening;

beforeAll(async () => {
  demo = await processes.startDemo();
  for (const [order, one] of Object.entries(atTheDemo)) {
    if (!('fault' in one)) continue;
    const body = JSON.stringify({ operation: 'transfer', client_orderid: order, fault: one.fault });
    const headers = { 'Content-Type': 'application/json' };
    const added = await fetch(`${demo.gatewayAdminUrl}/faults`, { method: 'POST', headers, body });
    expect(added.status).toBe(201);
  }
  stub = await listen(createServer((request, response) => void respond(request, response)));
}, 60_000);
afterAll(async () => {
  processes.clear();
  await stub.close();
});

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const order = new URLSearchParams(await text(request)).get('client_orderid') ?? '';
  atAStub[order]?.respond(response);
}

/** An order ID with the API that responds to it. */
function targetOf(order: string): string {
  if (order in atAStub) return `http://127.0.0.1:${stub.port}#${order}`;
  return `${demo.proxyUrl}/${order === 'not-sent' ? 'nowhere' : 'sandbox'}/gw#${order}`;
}

interface Generated {
  readonly name: string;
  readonly program: Parameters<typeof describeWith>[0];
  /** Of the block in the page. */
  readonly language: string;
  /** Generates the client in a folder that has the function of the page. @returns the program that uses it */
  readonly generate: (folder: string) => Promise<readonly [file: string, ...args: string[]]>;
}

const source = join(root, 'test/repo/generated-clients');
const nodeTypes = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')];
const run = promisify(execFile);

const languages: readonly Generated[] = [
  {
    name: 'Python (openapi-python-client)',
    program: 'openapi-python-client',
    language: 'python',
    async generate(folder) {
      const options = ['--path', 'openapi.yaml', '--meta', 'none', '--output-path', 'countersign_client'];
      await run('openapi-python-client', ['generate', ...options], { cwd: folder });
      return [pythonOf('openapi-python-client'), join(folder, 'main.py')];
    },
  },
  {
    name: 'TypeScript (@hey-api/openapi-ts)',
    program: 'openapi-ts',
    language: 'typescript',
    async generate(folder) {
      await run('openapi-ts', ['--file', 'openapi-ts.config.mjs', '--no-log-file'], { cwd: folder });
      await run(join(root, 'node_modules/.bin/tsc'), ['--project', folder, ...nodeTypes]);
      return [process.execPath, join(folder, 'dist/main.js')];
    },
  },
];

/** The interpreter of a program in a virtual environment: it has the packages that the client imports. */
function pythonOf(program: string): string {
  const beside = join(dirname(realpathSync(findProgram(program) ?? '')), 'python3');
  return existsSync(beside) ? beside : 'python3';
}

for (const { name, program, language, generate } of languages) {
  describeWith(program)(name, () => {
    const folder = new Folder();
    afterAll(() => folder.remove());
    let printed: readonly string[];

    beforeAll(async () => {
      cpSync(source, folder.path, { recursive: true });
      cpSync(join(root, 'docs/openapi.yaml'), folder.at('openapi.yaml'));
      const [block] = blocksOf(readFileSync(join(root, 'docs/calling.md'), 'utf8'), language);
      folder.file(block?.info ?? '', block?.text ?? '');
      const [file, ...args] = await generate(folder.path);
      const targets = Object.keys(expected).map(targetOf);
      const { stdout } = await run(file, [...args, `${demo.proxyUrl}/sandbox/gw`, ...targets]);
      printed = stdout.split('\n');
    }, 180_000);

    // Twice: with Accept */* and application/json.
    it.each(Object.entries(expected))('reads %s as %s', (order, result) => {
      const lines = printed.filter((line) => line.startsWith(`${order} `));
      expect(lines).toEqual([`${order} ${result}`, `${order} ${result}`]);
    });

    it('has types for successes', () => {
      expect(printed.slice(0, 2)).toEqual(['balance 12500.5', 'status approved']);
    });
  });
}
