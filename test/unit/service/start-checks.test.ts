import { describe, expect, it } from '@jest/globals';
import { keepsResponsesApart } from '../../../src/preflight.cjs';
import {
  coreDumpProblem,
  nodeVersionFault,
  unsafeSettings,
  unusedProxyVariables,
} from '../../../src/service/start-checks.ts';
import { signingConcurrency, sizeThreadPool } from '../../../src/service/thread-pool.ts';

const lookUpIn = (variables: Readonly<Record<string, string>>) => (name: string) =>
  new Map(Object.entries(variables)).get(name);

describe('unsafe settings', () => {
  const problems = (
    variables: Readonly<Record<string, string>>,
    execArgv: readonly string[] = [],
  ): string[] => unsafeSettings(lookUpIn(variables), execArgv);

  it.each([
    [{ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, 1],
    [{ NODE_TLS_REJECT_UNAUTHORIZED: '1' }, 0],
    [{ NODE_DEBUG: 'http' }, 1],
    [{ NODE_DEBUG: '' }, 0],
    [{ NODE_DEBUG_NATIVE: 'TLS' }, 1],
    [{ DEBUG: 'node-vault' }, 1],
    [{ NODE_OPTIONS: '--max-old-space-size=256 --disable-sigusr1' }, 0],
    [{ NODE_OPTIONS: '--report-on-signal --inspect=0.0.0.0:9229' }, 2],
    [{}, 0],
  ])('%j: %d', (settings, count) => {
    expect(problems(settings)).toHaveLength(count);
  });

  it.each([
    '--inspect',
    '--report-on-signal',
    '--report_on_signal',
    '--report-uncaught-exception',
    '--report-on-fatalerror',
    '--heapsnapshot-signal=SIGUSR2',
    '--heapsnapshot-near-heap-limit=1',
    '--heap-prof',
    '--cpu-prof',
    '--abort-on-uncaught-exception',
    '--tls-keylog=/tmp/keys',
    '--trace-tls',
    '--unhandled-rejections=warn',
    '--insecure-http-parser',
    '--security-revert=CVE-2023-46809',
    '--build-snapshot',
    '--experimental-config-file=node.config.json',
  ])('%s, on the command line and in NODE_OPTIONS, quoted or not', (option) => {
    const remove = (from: string) => [expect.stringMatching(`Remove it from ${from}`)];
    expect(problems({}, ['--import', 'x', option])).toEqual(remove('the command line'));
    expect(problems({ NODE_OPTIONS: `--max-old-space-size=256 ${option}` })).toEqual(remove('NODE_OPTIONS'));
    expect(problems({ NODE_OPTIONS: `"${option}"` })).toEqual(remove('NODE_OPTIONS'));
  });

  it.each(['--no-inspect', '--disable-sigusr1', '--secure-heap=4096'])('not %s', (option) => {
    expect(problems({ NODE_OPTIONS: option }, [option])).toEqual([]);
  });
});

it('variables for a proxy that is not used are named', () => {
  const used = { HTTPS_PROXY: 'http://proxy:3128', all_proxy: 'socks5://proxy', NO_PROXY: '*' };
  expect(unusedProxyVariables(lookUpIn(used))).toEqual(['HTTPS_PROXY', 'all_proxy']);
  expect(unusedProxyVariables(lookUpIn({ https_proxy: '', PATH: '/bin' }))).toEqual([]);
});

it.each([
  ['v22.18.0', false],
  ['v22.23.3', false],
  ['v22.23.4', true],
  ['v23.11.0', false],
  ['v24.22.0', false],
  ['v24.22.1', true],
  ['v25.9.0', false],
  ['v26.12.0', false],
  ['v26.12.1', true],
  ['v27.0.0', true],
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

it.each([
  ['0                    unlimited            bytes', false],
  ['unlimited            unlimited            bytes', true],
  ['4096                 unlimited            bytes', true],
  ['', false],
])('core dumps with the limits %s are allowed: %s', (limits, isAllowed) => {
  const problem = coreDumpProblem(`Max cpu time  unlimited\nMax core file size        ${limits}\n`);
  expect(problem !== undefined).toBe(isAllowed);
});

it.each([
  [1, '5'],
  [2, '5'],
  [3, '6'],
  [64, '11'],
])('%d cores: a pool of %s threads, unless the operator has set its size', (cores, size) => {
  const [environment, sized]: NodeJS.ProcessEnv[] = [{}, { UV_THREADPOOL_SIZE: '32' }];
  for (const one of [environment, sized]) sizeThreadPool(one ?? {}, cores);
  expect([environment, sized]).toEqual([{ UV_THREADPOOL_SIZE: size }, { UV_THREADPOOL_SIZE: '32' }]);
});

it.each([
  [undefined, 2],
  ['4', 2],
  ['10', 8],
  ['3', 1],
  ['0', 1],
  ['many', 1],
])('a pool of size %s makes %d signatures at once', (size, concurrency) => {
  expect(signingConcurrency(size)).toBe(concurrency);
});
