import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { compileCache } from '../support/compile-cache.ts';
import { harness } from '../support/harness.ts';
import { type Listening, listen } from '../support/listening.ts';
import { itWhere } from '../support/requires.ts';
import { sampleStatus } from '../support/sample-status.ts';
import { root } from '../support/sources.ts';
import { until } from '../support/until.ts';

const start = harness();

const main = join(root, 'src/main.ts');

/** An instance that is ready at first, and not any more after `unready`. */
async function instance(
  onPort = 0,
): Promise<Listening & { readonly url: string; readonly unready: () => void }> {
  let status = sampleStatus;
  const server = createServer((_request, response) => response.end(JSON.stringify(status)));
  const listening = start.closing(await listen(server, onPort));
  const unready = (): void => {
    status = { ...sampleStatus, health: { ready: false, reasons: ['draining'], warnings: [] } };
  };
  return { ...listening, url: `http://127.0.0.1:${listening.port}`, unready };
}

/** A process with what it printed so far, and its exit code. */
function observe(child: ChildProcess) {
  const printed = { out: '', err: '' };
  child.stdout?.on('data', (text: Buffer) => (printed.out += String(text)));
  child.stderr?.on('data', (text: Buffer) => (printed.err += String(text)));
  const code = new Promise<number | null>((resolve) => child.once('close', resolve));
  start.atEnd(() => child.kill('SIGKILL'));
  return { child, printed, code };
}

const env = { PATH: process.env['PATH'] ?? '', ...compileCache };
const watching = (...argv: string[]) =>
  observe(spawn(process.execPath, [main, 'status', '--watch', '--interval', '1', ...argv], { env }));

const count = (text: string, part: string): number => text.split(part).length - 1;

const escape = '\u001b';

it('prints a block per interval to a pipe, continues while the instance is gone, and ends at a signal', async () => {
  const { url, port, close } = await instance();
  const { child, printed, code } = watching('--url', url);
  await until(() => count(printed.out, `Ready, NOT WELL: ${url}`) >= 2);
  await close();
  await until(() => printed.out.includes('\nNext attempt in 1 s.\n\n'));
  expect(printed.out).toContain(`\n\nNo status: ${url} refused the connection.`);
  const { unready } = await instance(port);
  unready();
  await until(() => printed.out.includes(`NOT READY: ${url}`));
  child.kill('SIGTERM');
  expect([await code, printed.err]).toEqual([1, '']);
  expect(printed.out).toMatch(/^[ -~\n]*$/);
});

it('exits as the last reading says, with --fail-on', async () => {
  const { url } = await instance();
  const { child, printed, code } = watching('--url', url, '--fail-on', 'bad');
  await until(() => printed.out.includes(`Ready, NOT WELL: ${url}`));
  child.kill('SIGINT');
  expect(await code).toBe(1);
});

it('prints one JSON line per interval, and problems elsewhere', async () => {
  const { url, close } = await instance();
  const { child, printed, code } = watching('--url', url, '--json');
  await until(() => count(printed.out, '\n') >= 2);
  await close();
  await until(() => printed.err.includes('refused the connection'));
  child.kill('SIGINT');
  expect(await code).toBe(1);
  for (const line of printed.out.trimEnd().split('\n')) expect(JSON.parse(line)).toEqual(sampleStatus);
});

it('ends when the reader of the pipe is gone', async () => {
  const { url } = await instance();
  const command = `"$NODE" "${main}" status --watch --interval 1 --url ${url} | head -n 1; echo "\${PIPESTATUS[0]}"`;
  const { printed, code } = observe(
    spawn('bash', ['-c', command], {
      env: { ...env, NODE: process.execPath },
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  );
  expect(await code).toBe(0);
  expect(printed).toEqual({ out: expect.stringMatching(/^Ready, NOT WELL: [^\n]*\n0\n$/), err: '' });
});

const hasScript = spawnSync('script', ['--version']).error === undefined;

itWhere(hasScript, 'script is not installed (Debian package: bsdutils)').each(['\u0003', 'SIGTERM'])(
  'redraws in place at a terminal, and gives it back at the end (%j)',
  async (end) => {
    const { url, unready } = await instance();
    // The terminal has no size at first.
    const command = `stty rows 40 cols 60; echo $$; exec "$NODE" "${main}" status --watch --interval 1 --url ${url}`;
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      env: { ...env, NODE: process.execPath },
    });
    const { printed, code } = observe(child);
    await until(() => printed.out.includes(`Ready, NOT WELL: ${url}`));
    unready();
    await until(() => printed.out.includes(`NOT READY: ${url}`));
    if (end === 'SIGTERM') process.kill(Number(/^\d+/.exec(printed.out)?.[0]), 'SIGTERM');
    else child.stdin.write(end);
    expect(await code).toBe(1);
    const [, entered = '', left = ''] = printed.out.split(`${escape}[?1049`);
    expect(entered.startsWith(`h${escape}[?25l${escape}[H${escape}[KReady, NOT WELL: `)).toBe(true);
    expect(entered.endsWith(`${escape}[?25h`)).toBe(true);
    expect(left.trim()).toBe('l');
    const frames = entered.split(`${escape}[H`).slice(1);
    for (const frame of frames) {
      const lines = frame.replaceAll(new RegExp(`${escape}\\[[KJ?25h]*|\\^C`, 'g'), '').split(/\r+\n/);
      expect(lines.length).toBeLessThanOrEqual(40);
      expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(60);
    }
    expect(frames.at(-1)).toContain('more lines: enlarge the window');
  },
);

itWhere(hasScript, 'script is not installed (Debian package: bsdutils)')(
  'prints JSON at a terminal as on a pipe, without control sequences',
  async () => {
    const { url } = await instance();
    const command = `exec "$NODE" "${main}" status --watch --json --interval 1 --url ${url}`;
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      env: { ...env, NODE: process.execPath },
    });
    const { printed, code } = observe(child);
    await until(() => count(printed.out, '\n') >= 2);
    child.stdin.write('\u0003');
    expect(await code).toBe(0);
    expect(printed.out).not.toContain('\u001b');
    expect(JSON.parse(printed.out.split('\r\n')[0] ?? '')).toEqual(sampleStatus);
  },
);

itWhere(hasScript, 'script is not installed (Debian package: bsdutils)')(
  'prints blocks at a terminal that knows no control sequences',
  async () => {
    const { url } = await instance();
    const command = `TERM=dumb exec "$NODE" "${main}" status --watch --interval 1 --url ${url}`;
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      env: { ...env, NODE: process.execPath },
    });
    const { printed, code } = observe(child);
    await until(() => count(printed.out, `Ready, NOT WELL: ${url}`) >= 2);
    child.stdin.write('\u0003');
    expect(await code).toBe(0);
    expect(printed.out).not.toContain('\u001b');
  },
);

itWhere(hasScript, 'script is not installed (Debian package: bsdutils)')(
  'keeps request IDs whole at a terminal of 80 columns, and equal failures in one line',
  async () => {
    const requestId = (last: string): string => `6d0b1a9c-52a6-4d1b-a7d8-0c8f9a4b2f${last}`;
    const [failure] = sampleStatus.failures;
    if (failure === undefined) throw new Error('no failure');
    const failures = Array.from({ length: 40 }, (_, index) => ({
      ...failure,
      requestId: requestId(String(index + 10)),
      operation: index % 2 === 0 ? 'order-status' : 'a-transfer-with-a-long-name',
    }));
    const status = { ...sampleStatus, failures };
    const server = createServer((_request, response) => response.end(JSON.stringify(status)));
    const { port } = start.closing(await listen(server));
    const command = `stty rows 120 cols 80; exec "$NODE" "${main}" status --watch --interval 1 --url http://127.0.0.1:${port}`;
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      env: { ...env, NODE: process.execPath },
    });
    const { printed, code } = observe(child);
    await until(() => count(printed.out, 'Runbook: ') >= 1);
    child.stdin.write('\u0003');
    await code;
    const text = printed.out.replaceAll(new RegExp(`${escape}\\[[?\\w]*`, 'g'), '');
    const lines = text.split(/\r+\n/);
    expect(lines.every(({ length }) => length <= 80)).toBe(true);
    expect(text).toMatch(new RegExp(` 20 .* sandbox/order-status .*[^]*? ${requestId('10')}\r`));
    expect(text).toMatch(
      new RegExp(` 20 .* sandbox/a-transfer-with-a-long-name .*[^]*? ${requestId('11')}\r`),
    );
    expect(text).not.toContain(requestId('12'));
  },
);
