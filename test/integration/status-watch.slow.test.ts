import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { compileCache } from '../support/compile-cache.ts';
import { harness } from '../support/harness.ts';
import { type Listening, listen } from '../support/listening.ts';
import { itWhere } from '../support/requires.ts';
import { root } from '../support/sources.ts';
import { troubleStatus } from '../support/status.ts';
import { until } from '../support/until.ts';

const start = harness();

const main = join(root, 'src/main.ts');

async function instance(onPort = 0): Promise<Listening & { readonly url: string }> {
  const server = createServer((_request, response) => response.end(JSON.stringify(troubleStatus())));
  const listening = start.closing(await listen(server, onPort));
  return { ...listening, url: `http://127.0.0.1:${listening.port}` };
}

/** A process with what it printed so far, and how it ended. */
function observe(child: ChildProcess) {
  const printed = { out: '', err: '' };
  child.stdout?.on('data', (text: Buffer) => (printed.out += String(text)));
  child.stderr?.on('data', (text: Buffer) => (printed.err += String(text)));
  const ended = new Promise<unknown>((resolve) =>
    child.once('close', (code, signal) => resolve(code ?? signal)),
  );
  start.atEnd(() => child.kill('SIGKILL'));
  return { child, printed, ended };
}

const env = { PATH: process.env['PATH'] ?? '', NODE: process.execPath, ...compileCache };
const watching = (...argv: string[]) =>
  observe(spawn(process.execPath, [main, 'status', '--watch', ...argv], { env }));

const count = (text: string, part: string): number => text.split(part).length - 1;

it('prints one block after the other to a pipe, also after the instance was gone, and ends at a signal', async () => {
  const { url, port, close } = await instance();
  const { child, printed, ended } = watching('--url', url);
  await until(() => count(printed.out, `\nReady, not well: ${url}`) >= 2);
  await close();
  await until(() => printed.err.includes(`No status: ${url} refused the connection.`));
  const before = printed.out;
  await instance(port);
  await until(() => printed.out !== before);
  child.kill('SIGINT');
  expect(await ended).toBe('SIGINT');
  expect(printed.out).toMatch(/^[ -~\n]*$/);
});

it('prints one line of JSON after the other', async () => {
  const { url } = await instance();
  const { printed } = watching('--url', url, '--json');
  await until(() => count(printed.out, '\n') >= 2);
  for (const line of printed.out.trimEnd().split('\n')) expect(JSON.parse(line)).toEqual(troubleStatus());
});

it('ends when the reader of the pipe is gone', async () => {
  const { url } = await instance();
  const command = `"$NODE" "${main}" status --watch --url ${url} | head -n 2; echo "\${PIPESTATUS[0]}"`;
  const { printed, ended } = observe(
    spawn('bash', ['-c', command], { env, stdio: ['ignore', 'pipe', 'pipe'] }),
  );
  expect(await ended).toBe(0);
  expect(printed).toEqual({ out: expect.stringMatching(/^\nReady, not well: [^\n]*\n0\n$/), err: '' });
});

const hasScript = spawnSync('script', ['--version']).error === undefined;

itWhere(hasScript, 'script is not installed (Debian package: bsdutils)').each([
  ['xterm', true],
  ['dumb', false],
])('begins at the top of a terminal of type %s: %s', async (term, isCleared) => {
  const { url } = await instance();
  const command = `TERM=${term} exec "$NODE" "${main}" status --watch --url ${url}`;
  const { child, printed, ended } = observe(spawn('script', ['-qec', command, '/dev/null'], { env }));
  await until(() => count(printed.out, `Ready, not well: ${url}`) >= 2);
  expect(printed.out.includes('\u001b[1;1H\u001b[0JReady')).toBe(isCleared);
  expect(printed.out.includes('\u001b')).toBe(isCleared);
  child.stdin?.write('\u0003');
  await ended;
});
