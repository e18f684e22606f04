import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, it } from '@jest/globals';
import { harness } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { spawnProgram } from '../support/process.ts';
import { until } from '../support/until.ts';

const starts = harness();

/** A port that another process has. */
const occupy = async (): Promise<number> => starts.closing(await listen(createServer())).port;

/** With this port for both, and this level. */
function configuration(port: number, level = 'info'): string {
  return starts.folder().file(
    'config.yaml',
    `proxy: { port: ${port} }
admin: { port: ${port} }
environments: { sandbox: { baseUrl: "http://127.0.0.1:9", product: gw } }
keys: { source: directory, directory: . }
log: { level: ${level} }
`,
  );
}

function serve(argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = spawnProgram(argv, { folder: starts.folder().path, env });
  const closed = once(child, 'close');
  starts.atEnd(() => {
    child.kill('SIGKILL');
    return closed;
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ended = async () => ({ code: (await closed)[0], output });
  return { child, output: () => output, ended };
}

it('serve takes file and ports from options and variables, also after a reload', async () => {
  const port = await occupy();
  const { child, output } = serve(['--port', '0'], {
    COUNTERSIGN_CONFIG: configuration(port, 'error'),
    COUNTERSIGN_PROXY_PORT: String(port),
    COUNTERSIGN_ADMIN_PORT: '0',
    COUNTERSIGN_LOG_LEVEL: 'info',
  });
  await until(() => output().includes('"msg":"started"') || child.exitCode !== null);
  child.kill('SIGHUP');
  // Ports and level need a restart if they change: they did not.
  await until(() => output().includes('"msg":"configuration reloaded"'));
});

it.each([
  [['--port', '70000'], {}, '--port must be a port from 0 to 65535; 0 picks a free one'],
  [
    [],
    { COUNTERSIGN_LOG_LEVEL: 'loud' },
    'COUNTERSIGN_LOG_LEVEL must be one of debug, info, warn, error, silent',
  ],
])('serve %j %j is rejected in a sentence, before it starts', async (argv, env, text) => {
  expect(await serve(['--config', configuration(0), ...argv], env).ended()).toEqual({
    code: 2,
    output: `countersign serve: ${text}\nSee: countersign serve --help\n`,
  });
});

it('serve does not run the demo when the variable for the file is empty', async () => {
  expect(await serve([], { COUNTERSIGN_CONFIG: '' }).ended()).toEqual({
    code: 2,
    output:
      'countersign serve: COUNTERSIGN_CONFIG is empty: set it to a file, or unset it\nSee: countersign serve --help\n',
  });
});

it.each([
  ['--port', '--admin-port'],
  ['--admin-port', '--port'],
])('a port in use is reported with the option %s that changes it', async (option, other) => {
  const port = await occupy();
  expect(await serve(['--config', configuration(port), other, '0']).ended()).toEqual({
    code: 1,
    output: expect.stringContaining(
      `Countersign cannot start: 127.0.0.1:${port} is in use. Choose another port with ${option}.\n`,
    ),
  });
});

it('serve warns of a proxy variable, which it does not use', async () => {
  const env = { HTTPS_PROXY: 'http://user:secret@proxy.test:3128' };
  const { child, output } = serve(['--config', configuration(0)], env);
  await until(() => output().includes('no HTTP proxy is used') || child.exitCode !== null);
  expect(output()).toMatch(/"level":"warn".*"variables":"HTTPS_PROXY".*no HTTP proxy is used/);
  expect(output()).not.toContain('secret');
});
