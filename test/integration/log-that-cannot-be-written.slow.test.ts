import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { configFor } from '../support/config.ts';
import { observe } from '../support/countersign.ts';
import { freePort, httpResponse, once } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import { formRequest } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const starts = harness();

it.each(['a full disk', 'a closed pipe'])(
  '%s for the log stops neither requests nor SIGTERM',
  async (what) => {
    const gateway = await starts.gateway([once(httpResponse('200 OK', 'status=approved\n'))]);
    // Fixed, because the log line with the ports is lost.
    const [proxy, admin] = [await freePort(), await freePort()];
    const timeouts = { shutdownDelay: '0s' };
    const file = configFor(gateway.url, { proxy: { port: proxy, timeouts }, admin: { port: admin } });
    const full = openSync('/dev/full', 'w');
    const process = starts.spawn({ stdout: what === 'a full disk' ? full : 'pipe', file });
    closeSync(full);
    process.child.stdout?.destroy();
    const urls = { url: `http://127.0.0.1:${proxy}`, adminUrl: `http://127.0.0.1:${admin}` };
    const { transfer, metric, connect } = observe(urls, process.stdout);
    const succeeds = async () =>
      expect(await transfer()).toMatchObject({ status: 200, body: 'status=approved\n' });
    const dropped = async () => (await metric('log_lines_dropped_total')) ?? Number.NaN;
    const warnings = async (): Promise<unknown> => {
      const response = await fetch(`${urls.adminUrl}/readyz`).catch(() => undefined);
      return response?.text();
    };
    const readyWith = (codes: string) => `{"ready":true,"reasons":[],"warnings":[${codes}]}\n`;
    await until(async () => (await warnings()) === readyWith('"log-stalled"'), 'it is ready', 30);
    await succeeds();
    const client = async (): Promise<void> => {
      const connection = await connect();
      for (let round = 0; round < 20 && !((await dropped()) > 0); round += 1) {
        for (let count = 0; count < 125; count += 1) {
          connection.send(formRequest('/nowhere'));
          await connection.response();
        }
      }
      connection.close();
    };
    await Promise.all(Array.from({ length: 8 }, client));
    expect(await dropped()).toBeGreaterThan(0);
    expect(await warnings()).toBe(readyWith('"log-lines-dropped","log-stalled"'));
    await succeeds();
    const began = performance.now();
    expect(await process.stop()).toBe(0);
    expect(performance.now() - began).toBeLessThan(5_000);
  },
  60_000,
);

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
