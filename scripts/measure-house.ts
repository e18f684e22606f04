import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { z } from 'zod';
import { paths } from '../test/support/forwarding.ts';
import { startProcess } from '../test/support/process.ts';
import { controlKey, startSimulator } from '../test/support/simulator.ts';
import { until } from '../test/support/until.ts';

/** Countersign does not start with --inspect. */
const opensInspector =
  'data:text/javascript,import{open}from"node:inspector";process.once("SIGUSR2",()=>open(0,"127.0.0.1"))';

type Row = readonly (string | number)[];

const table = (rows: readonly Row[]): string => rows.map((row) => `| ${row.join(' | ')} |\n`).join('');

/** Per folder of src: files, their lines, and how many of them are imported by exactly one other. */
export function foldersOf(root: string): string {
  const files = globSync('src/**/*.ts', { cwd: root }).map((path) => {
    const text = readFileSync(join(root, path), 'utf8');
    const targets = [...text.matchAll(/\bfrom '(\.[^']+)'|\bimport '(\.[^']+)'/g)];
    const imports = targets.map(([, from, bare = '']) => join(dirname(path), from ?? bare));
    const folder = /^src\/(\w+)\//.exec(path)?.[1] ?? '.';
    return { path, folder, lines: text.split('\n').length - 1, imports };
  });
  const importers = (path: string): number => files.filter(({ imports }) => imports.includes(path)).length;
  const row = (name: string, some: typeof files): Row => {
    const byLines = some.toSorted((one, other) => one.lines - other.lines);
    const [median, largest] = [byLines[some.length >> 1], byLines.at(-1)];
    const lines = some.reduce((sum, one) => sum + one.lines, 0);
    const single = some.filter(({ path }) => importers(path) === 1).length;
    return [name, some.length, lines, median?.lines ?? 0, largest?.lines ?? 0, largest?.path ?? '', single];
  };
  const head = ['folder', 'files', 'lines', 'median', 'largest', 'which', 'one importer'];
  const folders = Object.entries(Object.groupBy(files, ({ folder }) => folder));
  const rows = [...folders.map(([name, some = []]) => row(name, some)), row('all', files)];
  return table([head, head.map(() => '---'), ...rows]);
}

const range = z.object({ startOffset: z.int(), endOffset: z.int(), count: z.int() });
const functionsOfScript = z.array(z.object({ ranges: z.array(range) }));
const script = z.object({ scriptId: z.string(), url: z.string(), functions: functionsOfScript });
const found = z.object({ result: z.array(script) });
const breakable = z.object({ locations: z.array(z.object({ scriptId: z.string() }).loose()) });
const entered = z.object({ result: z.object({ value: z.array(z.tuple([z.int(), z.string()])) }) });

type Send = (method: string, params?: object) => Promise<unknown>;

/** A session with the inspector of a process. */
async function inspect(address: string): Promise<Send> {
  const socket = new WebSocket(address);
  const waiting: ((result: unknown) => void)[] = [];
  socket.addEventListener('message', ({ data }) => {
    const { id, result } = JSON.parse(String(data));
    waiting[id]?.(result);
  });
  await once(socket, 'open');
  return (method, params = {}) =>
    new Promise((done) => socket.send(JSON.stringify({ id: waiting.push(done) - 1, method, params })));
}

/** The functions of src that V8 has counted once per request or more often. */
async function functionsRun(send: Send, root: string, requests: number) {
  const { result } = found.parse(await send('Profiler.takePreciseCoverage'));
  await send('Profiler.stopPreciseCoverage');
  const ours = result.filter(({ url }) => url.startsWith(pathToFileURL(join(root, 'src/')).href));
  return ours.flatMap(({ scriptId, url, functions }) => {
    const text = readFileSync(new URL(url), 'utf8');
    // What runs has the positions of the source: Node replaces types by spaces.
    const positionOf = (offset: number): object => {
      const lines = text.slice(0, offset).split('\n');
      return { scriptId, lineNumber: lines.length - 1, columnNumber: lines.at(-1)?.length };
    };
    return functions
      .flatMap(({ ranges }) => ranges.slice(0, 1))
      .map(({ startOffset, endOffset, count }) => ({
        url,
        inside: { start: positionOf(startOffset), end: positionOf(endOffset), restrictToFunction: true },
        calls: Math.round(count / requests),
      }))
      .filter(({ calls }) => calls > 0);
  });
}

/**
 * What a query with HMAC runs through after many others on the same connection. V8 counts calls over many requests; an
 * async function counts again after each `await`. Each function found so then notes its stack in one more request: a
 * move is a call by a function of another file.
 */
export async function requestOf(root: string, requests = 200): Promise<readonly Row[]> {
  const simulator = await startSimulator({ clock: Date.now });
  const started = { program: join(root, 'src/main.ts'), nodeOptions: ['--import', opensInspector] };
  const served = await startProcess({ gateway: simulator.url, keys: { acme: { controlKey } }, ...started });
  const form = { method: 'POST', body: new URLSearchParams() };
  const repeat = async (times: number): Promise<void> => {
    for (let sent = 0; sent < times; sent += 1) {
      const response = await fetch(`${served.url}${paths.balance}`, form);
      if (response.status !== 200) throw new Error(await response.text());
      await response.arrayBuffer();
    }
  };
  try {
    served.signal('SIGUSR2');
    const address = (): string | undefined => /ws:\S+/.exec(served.stderr())?.[0];
    await until(() => address() !== undefined, 'the inspector is open');
    const send = await inspect(address() ?? '');
    await send('Profiler.enable');
    await repeat(requests);
    await send('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
    await repeat(requests);
    const functions = await functionsRun(send, root, requests);
    await send('Debugger.enable');
    for (const [index, { inside }] of functions.entries()) {
      const [location] = breakable.parse(await send('Debugger.getPossibleBreakpoints', inside)).locations;
      const condition = `(globalThis.entered ??= []).push([${index}, new Error().stack]) < 0`;
      if (location !== undefined) await send('Debugger.setBreakpoint', { location, condition });
    }
    await send('Runtime.evaluate', { expression: 'Error.stackTraceLimit = 50; globalThis.entered = []' });
    await repeat(1);
    // What follows the response.
    await wait(1000);
    const noted = await send('Runtime.evaluate', { expression: 'entered', returnByValue: true });
    const left = functions.map(({ calls }) => calls);
    const moves = entered.parse(noted).result.value.flatMap(([index, stack]) => {
      // The first is that of the breakpoint. A function that begins with a loop notes each turn.
      const [, callee = '', caller = callee] = [...stack.matchAll(/src\/[^:]+/g)].map(String);
      if (callee === caller || left[index] === 0) return [];
      left[index] = (left[index] ?? 0) - 1;
      return [dirname(callee) !== dirname(caller)];
    });
    return [
      ['files', new Set(functions.map(({ url }) => url)).size],
      ['functions', functions.length],
      ['calls', functions.reduce((sum, { calls }) => sum + calls, 0)],
      ['moves between files', moves.length],
      ['moves between folders', moves.filter(Boolean).length],
    ];
  } finally {
    await Promise.all([served.close(), simulator.close()]);
  }
}

// The argument is the root of another checkout.
if (import.meta.main) {
  const root = resolve(process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url)));
  process.stdout.write(`${foldersOf(root)}\n${table(await requestOf(root))}`);
}
