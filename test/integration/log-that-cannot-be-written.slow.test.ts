import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { configFor } from '../support/config.ts';
import { type Countersign, observe } from '../support/countersign.ts';
import { freePort, httpResponse, once } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import { type ServeProcess } from '../support/process.ts';
import { formRequest } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const starts = harness();

type Running = ServeProcess & Countersign;

/** With fixed ports, because the log line with the ports may be lost. */
async function serveWith(stdout: number | 'pipe'): Promise<Running> {
  const gateway = await starts.gateway([once(httpResponse('200 OK', 'status=approved\n'))]);
  const [proxy, admin] = [await freePort(), await freePort()];
  const timeouts = { shutdownDelay: '0s' };
  const file = configFor(gateway.url, { proxy: { port: proxy, timeouts }, admin: { port: admin } });
  const process = starts.spawn({ stdout, file });
  const urls = { url: `http://127.0.0.1:${proxy}`, adminUrl: `http://127.0.0.1:${admin}` };
  const observed = observe(urls, process.stdout);
  await until(
    () =>
      observed.readiness().then(
        (status) => status === 200,
        () => false,
      ),
    'the process is ready',
    30,
  );
  return { ...observed, ...process };
}

const droppedLines = async ({ metric }: Running): Promise<number> =>
  (await metric('log_lines_dropped_total')) ?? Number.NaN;

async function transferSucceeds({ transfer }: Running): Promise<void> {
  expect(await transfer()).toMatchObject({ status: 200, body: 'status=approved\n' });
}

/** Sends requests with a log line each, until lines are dropped. */
async function fillLog(running: Running): Promise<void> {
  const batch = 125;
  const client = async (): Promise<void> => {
    const connection = await running.connect();
    for (let round = 0; round < 20 && !((await droppedLines(running)) > 0); round += 1) {
      for (let count = 0; count < batch; count += 1) {
        connection.send(formRequest('/nowhere'));
        await connection.response();
      }
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: 8 }, client));
}

async function exitsInTime(process: ServeProcess): Promise<void> {
  const began = performance.now();
  expect(await process.stop()).toBe(0);
  expect(performance.now() - began).toBeLessThan(5_000);
}

it.each(['a full disk', 'a closed pipe'])(
  '%s for the log stops neither requests nor SIGTERM',
  async (what) => {
    const full = openSync('/dev/full', 'w');
    const running = await serveWith(what === 'a full disk' ? full : 'pipe');
    closeSync(full);
    running.child.stdout?.destroy();
    await transferSucceeds(running);
    const readiness = async () => (await (await fetch(`${running.adminUrl}/readyz`)).text()).trim();
    const warned = (codes: string) => `{"ready":true,"reasons":[],"warnings":[${codes}]}`;
    await until(async () => (await readiness()) === warned('"log-stalled"'));
    await fillLog(running);
    expect(await droppedLines(running)).toBeGreaterThan(0);
    expect(await readiness()).toBe(warned('"log-lines-dropped","log-stalled"'));
    await transferSucceeds(running);
    await exitsInTime(running);
  },
  60_000,
);

it('a stalled log reader does not stop requests, and gets whole lines when it continues', async () => {
  const running = await serveWith('pipe');
  running.child.stdout?.pause();
  await fillLog(running);
  expect(await droppedLines(running)).toBeGreaterThan(0);
  await transferSucceeds(running);
  expect(await running.readiness()).toBe(200);
  running.child.stdout?.resume();
  await until(() => running.logLines('log lines dropped').length > 0);
  await transferSucceeds(running);
  const lost = await droppedLines(running);
  await exitsInTime(running);
  for (const line of running.stdout().split('\n').slice(0, -1))
    expect(JSON.parse(line)).toHaveProperty('msg');
  expect(running.logLines('log lines dropped')).toEqual([expect.objectContaining({ lines: lost })]);
}, 60_000);

it('a command whose output cannot be written exits with 1; a reader that closes the pipe is not an error', () => {
  const run = (redirection: string) =>
    spawnSync('bash', ['--norc', '-c', `${process.execPath} src/main.ts --help ${redirection}`], {
      env: { PATH: process.env['PATH'] ?? '' },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  const full = run('> /dev/full');
  expect([full.status, full.stderr]).toEqual([
    1,
    'Cannot write to standard output: ENOSPC. Check the disk and the redirection.\n',
  ]);
  const closed = run('| true; exit ${PIPESTATUS[0]}');
  expect([closed.status, closed.stderr]).toEqual([0, '']);
});
