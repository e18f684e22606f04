import { spawnSync } from 'node:child_process';
import { afterAll, describe, expect, it } from '@jest/globals';
import { compileCache } from '../support/compile-cache.ts';
import { Folder } from '../support/folder.ts';
import { harness } from '../support/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();

function start(nodeArguments: readonly string[], variables: Readonly<Record<string, string>> = {}) {
  return spawnSync(process.execPath, [...nodeArguments, 'src/main.ts', 'serve', '--help'], {
    env: { PATH: process.env['PATH'] ?? '', ...compileCache, ...variables },
    encoding: 'utf8',
  });
}

describe('a start is rejected with exit code 2', () => {
  const unsafe: readonly [option: string, why: string][] = [
    ['--inspect=127.0.0.1:0', 'opens a debugger'],
    ['--report-on-signal', 'writes environment variables to a file'],
    ['--report-uncaught-exception', 'writes environment variables to a file'],
    ['--report-on-fatalerror', 'writes environment variables to a file'],
    ['--heapsnapshot-signal=SIGUSR2', 'writes the memory of the process to a file'],
    ['--heapsnapshot-near-heap-limit=1', 'writes the memory of the process to a file'],
    ['--abort-on-uncaught-exception', 'writes a core file'],
    ['--tls-keylog=/dev/null', 'writes the secrets of TLS connections'],
    ['--unhandled-rejections=warn', 'prints error messages'],
    ['--insecure-http-parser', 'accepts requests'],
    ['--trace-tls', 'prints the data of TLS'],
    ['--cpu-prof', 'writes the memory of the process'],
    ['--heap-prof', 'writes the memory of the process'],
  ];
  const expected = unsafe.map(([option, why]) =>
    expect.stringContaining(`${option.replace(/=.*/, '')} ${why}`),
  );
  const problemsIn = (stderr: string): string[] => stderr.split('\n').filter((line) => line.startsWith('--'));
  const folder = new Folder();
  const options = [
    ...unsafe.map(([option]) => option),
    `--cpu-prof-dir=${folder.path}`,
    `--heap-prof-dir=${folder.path}`,
  ];
  afterAll(() => folder.remove());

  it.each([
    ['on the command line', () => start(options)],
    ['in NODE_OPTIONS', () => start([], { NODE_OPTIONS: options.join(' ') })],
  ])('with unsafe Node options %s, all of them named', (_where, run) => {
    const { status, stderr } = run();
    expect(problemsIn(stderr)).toEqual(expected);
    expect(status).toBe(2);
  });

  it('with DEBUG, which makes the Vault client print tokens', () => {
    const { status, stderr } = start([], { DEBUG: 'node-vault' });
    expect([status, stderr]).toEqual([2, 'DEBUG makes the Vault client print tokens and keys. Unset it.\n']);
  });

  it('but not with safe options', () => {
    expect(start(['--disable-sigusr1'], { NODE_OPTIONS: '--max-old-space-size=256' }).status).toBe(0);
  });
});

it('SIGUSR1 opens no debugger', async () => {
  const process = await starts.process();
  process.signal('SIGUSR1');
  // The debugger would be there by the time of the second response.
  for (let count = 0; count < 2; count += 1) expect((await process.post('/x')).status).toBe(404);
  expect(await process.stop()).toBe(0);
  expect(process.stderr()).toBe('');
});

it('SIGHUP before the start is complete does not end the process; the reload happens after it', async () => {
  // Sends itself the signal in the first turn of the event loop in which it handles SIGTERM.
  const module = `
    const timer = setInterval(() => {
      if (process.listenerCount('SIGTERM') === 0) return;
      clearInterval(timer);
      process.kill(process.pid, 'SIGHUP');
    }, 1);`;
  const process = await starts.process({
    nodeOptions: ['--import', `data:text/javascript,${encodeURIComponent(module)}`],
  });
  await until(() => process.logLines('configuration reloaded').length === 1);
  expect(await process.stop()).toBe(0);
});
