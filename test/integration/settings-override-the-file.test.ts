import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from '@jest/globals';
import { compileCache } from '../support/compile-cache.ts';
import { root } from '../support/sources.ts';
import { until } from '../support/until.ts';

const folder = mkdtempSync(join(tmpdir(), 'countersign-settings-'));
const file = join(folder, 'config.yaml');
const children: ChildProcess[] = [];
mkdirSync(join(folder, 'keys'));

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null) continue;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

/** A port that another process has. */
async function occupy(): Promise<{ port: number; release: () => void }> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  return { port: typeof address === 'object' ? (address?.port ?? 0) : 0, release: () => void server.close() };
}

function write(port: number, level: string): void {
  writeFileSync(
    file,
    `proxy: { port: ${port} }
admin: { port: ${port} }
environments: { sandbox: { baseUrl: "http://127.0.0.1:9", product: gw } }
keys: { source: directory, directory: keys }
log: { level: ${level} }
`,
  );
}

function serve(argv: readonly string[], env: Readonly<Record<string, string>>) {
  const child = spawn(process.execPath, [join(root, 'src/main.ts'), 'serve', ...argv], {
    env: { PATH: process.env['PATH'] ?? '', ...compileCache, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.push(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return { child, output: () => output };
}

it('serve takes file and ports from options and variables, also after a reload', async () => {
  const { port, release } = await occupy();
  try {
    write(port, 'error');
    const { child, output } = serve(['--port', '0'], {
      COUNTERSIGN_CONFIG: file,
      COUNTERSIGN_PROXY_PORT: String(port),
      COUNTERSIGN_ADMIN_PORT: '0',
      COUNTERSIGN_LOG_LEVEL: 'info',
    });
    await until(() => output().includes('"started"') || child.exitCode !== null);
    expect(output()).toContain('"msg":"started"');
    child.kill('SIGHUP');
    await until(() => output().includes('configuration reloaded'));
    // Ports and level need a restart if they change: they did not.
    expect(output()).toContain('"msg":"configuration reloaded"');
  } finally {
    release();
  }
});

it.each([
  [
    ['--port', '70000'],
    {},
    'countersign serve: --port must be a port from 0 to 65535; 0 picks a free one\nSee: countersign serve --help\n',
  ],
  [[], { COUNTERSIGN_LOG_LEVEL: 'loud' }, /^countersign serve: COUNTERSIGN_LOG_LEVEL must be one of debug, /],
])('serve %j %j is rejected in a sentence, before it starts', async (argv, env, text) => {
  write(0, 'info');
  const { child, output } = serve(['--config', file, ...argv], env);
  const [code] = await once(child, 'close');
  expect(code).toBe(2);
  if (typeof text === 'string') expect(output()).toBe(text);
  else expect(output()).toMatch(text);
});

it('serve does not run the demo when the variable for the file is empty', async () => {
  const { child, output } = serve([], { COUNTERSIGN_CONFIG: '' });
  const [code] = await once(child, 'close');
  expect([code, output()]).toEqual([
    2,
    'countersign serve: COUNTERSIGN_CONFIG is empty: set it to a file, or unset it\nSee: countersign serve --help\n',
  ]);
});

it.each([
  ['--port', '--admin-port'],
  ['--admin-port', '--port'],
])('a port in use is reported with the option %s that changes it', async (option, other) => {
  const { port, release } = await occupy();
  try {
    write(port, 'info');
    const { child, output } = serve(['--config', file, other, '0'], {});
    const [code] = await once(child, 'close');
    expect(code).toBe(1);
    expect(output()).toContain(
      `Countersign cannot start: 127.0.0.1:${port} is in use. Choose another port with ${option}.\n`,
    );
  } finally {
    release();
  }
});

it('serve warns of a proxy variable, which it does not use', async () => {
  write(0, 'info');
  const env = { HTTPS_PROXY: 'http://user:secret@proxy.test:3128' };
  const { child, output } = serve(['--config', file, '--port', '0'], env);
  await until(() => output().includes('no HTTP proxy is used') || child.exitCode !== null);
  expect(output()).toMatch(/"level":"warn".*"variables":"HTTPS_PROXY".*no HTTP proxy is used/);
  expect(output()).not.toContain('secret');
});
