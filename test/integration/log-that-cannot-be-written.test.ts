import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { afterEach, expect, it } from '@jest/globals';
import { samples } from '../support/exposition.ts';
import { freePort, once, reply, startFaultyGateway } from '../support/faulty-gateway.ts';
import { paths, post, transferForm, until } from '../support/forwarding.ts';
import { configFor, type ServeProcess, spawnServe } from '../support/process.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

interface RunningProxy {
  readonly process: ServeProcess;
  readonly url: string;
  readonly adminUrl: string;
}

/** With fixed ports, because the log line with the ports may be lost. */
async function serveWith(stdout: number | 'pipe'): Promise<RunningProxy> {
  const gateway = await startFaultyGateway([once(reply('200 OK', 'status=approved\n'))]);
  stops.push(gateway.close);
  const [proxy, admin] = [await freePort(), await freePort()];
  const process = spawnServe({
    stdout,
    config: configFor(gateway.url, {
      proxy: { port: proxy, timeouts: { shutdownDelay: '0s' } },
      admin: { port: admin },
    }),
  });
  stops.push(process.clear);
  const adminUrl = `http://127.0.0.1:${admin}`;
  await until(() =>
    fetch(`${adminUrl}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return { process, url: `http://127.0.0.1:${proxy}`, adminUrl };
}

async function droppedLines(adminUrl: string): Promise<number> {
  const page = await (await fetch(`${adminUrl}/metrics`)).text();
  return samples(page).get('countersign_log_lines_dropped_total') ?? Number.NaN;
}

async function transferSucceeds(url: string): Promise<void> {
  expect(await post(`${url}${paths.transfer}`, transferForm)).toMatchObject({
    status: 200,
    body: 'status=approved\n',
  });
}

/** Sends requests with a log line each, until lines are dropped. */
async function fillLog({ url, adminUrl }: RunningProxy): Promise<void> {
  const connection = await RawConnection.open(url);
  const batch = 1_000;
  for (let round = 0; round < 20 && !((await droppedLines(adminUrl)) > 0); round += 1) {
    connection.send(formRequest('/nowhere').repeat(batch));
    for (let count = 0; count < batch; count += 1) await connection.answer();
  }
  connection.close();
}

async function exitsInTime(process: ServeProcess): Promise<void> {
  const began = performance.now();
  process.signal('SIGTERM');
  expect(await process.ended).toBe(0);
  expect(performance.now() - began).toBeLessThan(5_000);
}

it('a full disk for the log stops neither requests nor SIGTERM', async () => {
  const full = openSync('/dev/full', 'w');
  const running = await serveWith(full);
  closeSync(full);
  await transferSucceeds(running.url);
  await until(async () => (await droppedLines(running.adminUrl)) > 0);
  await transferSucceeds(running.url);
  const readyz = await fetch(`${running.adminUrl}/readyz`);
  expect([readyz.status, await readyz.json()]).toEqual([
    200,
    { ready: true, reasons: [], warnings: ['log-lines-dropped'] },
  ]);
  await exitsInTime(running.process);
});

it('a closed log pipe stops neither requests nor SIGTERM', async () => {
  const running = await serveWith('pipe');
  running.process.child.stdout?.destroy();
  await transferSucceeds(running.url);
  await until(async () => (await droppedLines(running.adminUrl)) > 0);
  await transferSucceeds(running.url);
  await exitsInTime(running.process);
});

it('a stalled log reader does not stop requests, and gets whole lines when it continues', async () => {
  const running = await serveWith('pipe');
  const { process, url, adminUrl } = running;
  process.child.stdout?.pause();
  await fillLog(running);
  expect(await droppedLines(adminUrl)).toBeGreaterThan(0);
  await transferSucceeds(url);
  expect((await fetch(`${adminUrl}/readyz`)).status).toBe(200);
  process.child.stdout?.resume();
  await until(() => process.lines('log lines dropped').length > 0);
  await transferSucceeds(url);
  const lost = await droppedLines(adminUrl);
  await exitsInTime(process);
  const lines = process.stdout().split('\n').slice(0, -1);
  expect(lines.filter((line) => !isJson(line))).toEqual([]);
  expect(process.lines('log lines dropped')).toEqual([expect.objectContaining({ lines: lost })]);
}, 60_000);

it('a stalled log reader has 0.3 s to continue before the process exits', async () => {
  const running = await serveWith('pipe');
  running.process.child.stdout?.pause();
  await fillLog(running);
  const began = performance.now();
  running.process.signal('SIGTERM');
  await until(() => running.process.child.exitCode !== null);
  const elapsed = performance.now() - began;
  expect(running.process.child.exitCode).toBe(0);
  expect(elapsed).toBeGreaterThanOrEqual(300);
  expect(elapsed).toBeLessThan(5_000);
  running.process.child.stdout?.resume();
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

function isJson(line: string): boolean {
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}
