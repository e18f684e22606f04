import { spawnSync } from 'node:child_process';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { describe, expect, it, jest } from '@jest/globals';
import { stringify } from 'yaml';
import { run } from '../support/cli.ts';
import { compileCache } from '../support/compile-cache.ts';
import { configFor, tokenCredential } from '../support/config.ts';
import { harness } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { itWhere } from '../support/requires.ts';
import { noGateway } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness();

/** A port that another process has. */
const occupy = async (): Promise<number> => starts.closing(await listen(createServer())).port;

const configuration = (proxyPort: number, adminPort: number, level: 'info' | 'error' = 'info') =>
  configFor(noGateway, { proxy: { port: proxyPort }, admin: { port: adminPort }, log: { level } });

it('serve takes file and ports from options and variables, also after a reload', async () => {
  const port = await occupy();
  const wrong = configuration(port, await occupy(), 'error');
  const file = starts.folder().file('config.yaml', stringify(wrong));
  const process = starts.spawn({
    args: ['--port', '0'],
    env: {
      COUNTERSIGN_CONFIG: file,
      COUNTERSIGN_PROXY_PORT: String(port),
      COUNTERSIGN_ADMIN_PORT: '0',
      COUNTERSIGN_LOG_LEVEL: 'info',
    },
  });
  expect(await process.started()).toBe(true);
  process.signal('SIGHUP');
  // Ports and level need a restart if they change: they did not.
  await until(() => process.logLines('configuration reloaded').length === 1);
});

it('serve rejects a wrong option or variable in a sentence, before it starts', async () => {
  const rejected = async (argv: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    const replaced = jest.replaceProperty(process, 'env', { ...process.env, ...env });
    const { code, err } = await run(['serve', ...argv]).finally(() => replaced.restore());
    return `${code} ${err}`;
  };
  const end = '\nSee: countersign serve --help';
  expect(await rejected([])).toBe(
    `2 countersign serve: --config FILE is required. Without one: countersign demo${end}`,
  );
  expect(await rejected(['--port', '70000'])).toBe(
    `2 countersign serve: --port must be a port from 0 to 65535; 0 picks a free one${end}`,
  );
  expect(await rejected(['--config', 'c.yaml'], { COUNTERSIGN_LOG_LEVEL: 'loud' })).toBe(
    `2 countersign serve: COUNTERSIGN_LOG_LEVEL must be one of debug, info, warn, error, silent${end}`,
  );
  expect(await rejected([], { COUNTERSIGN_CONFIG: '' })).toBe(
    `2 countersign serve: COUNTERSIGN_CONFIG is empty: set it to a file, or unset it${end}`,
  );
});

it('a port in use is reported with the option that changes it', async () => {
  const port = await occupy();
  const process = starts.spawn({ file: configuration(0, port) });
  expect(await process.ended).toBe(1);
  expect(process.stderr()).toContain(
    `Countersign cannot start: 127.0.0.1:${port} is in use. Choose another port with --admin-port.\n`,
  );
});

it('serve warns of a proxy variable, which it does not use', async () => {
  const env = { HTTPS_PROXY: 'http://user:secret@proxy.test:3128' };
  const process = starts.spawn({ file: configuration(0, 0), env });
  expect(await process.started()).toBe(true);
  const line = /"level":"warn".*"variables":"HTTPS_PROXY".*no HTTP proxy is used/;
  await until(() => line.test(process.stdout()));
  expect(process.stdout()).not.toContain('secret');
});

describe('unsafe settings', () => {
  function start(nodeArguments: readonly string[], variables: Readonly<Record<string, string>> = {}) {
    return spawnSync(process.execPath, [...nodeArguments, 'src/main.ts', 'serve', '--help'], {
      env: { PATH: process.env['PATH'] ?? '', ...compileCache, ...variables },
      encoding: 'utf8',
    });
  }

  it('stop a start with exit code 2, each of them named, on the command line and in NODE_OPTIONS', () => {
    const options = ['--inspect=127.0.0.1:0', '--report-on-signal'];
    const named = [/^--inspect opens a debugger/, /^--report-on-signal writes environment variables/];
    for (const { status, stderr } of [start(options), start([], { NODE_OPTIONS: options.join(' ') })]) {
      const problems = stderr.split('\n').filter((line) => line.startsWith('--'));
      expect(problems).toEqual(named.map((text) => expect.stringMatching(text)));
      expect(status).toBe(2);
    }
    expect(start([], { DEBUG: 'node-vault' })).toMatchObject({
      status: 2,
      stderr: 'DEBUG makes the Vault client print tokens and keys. Unset it.\n',
    });
    expect(start(['--disable-sigusr1'], { NODE_OPTIONS: '--max-old-space-size=256' }).status).toBe(0);
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
});

it('the demo says why it cannot write its keys, and what to do', () => {
  // Where not even root can create a folder.
  const env = { PATH: process.env['PATH'] ?? '', TMPDIR: '/proc/self', ...compileCache };
  const argv = ['src/main.ts', 'demo', '--port', '0'];
  expect(spawnSync(process.execPath, argv, { env, encoding: 'utf8' })).toMatchObject({
    status: 1,
    stdout: '',
    stderr:
      'countersign demo: it cannot write its temporary keys to /proc/self (ENOENT). Set TMPDIR to a writable directory, such as /dev/shm\n',
  });
});

const hasIpv6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses?.some(({ address }) => address === '::1'),
);

describe.each([
  ['::', ['127.0.0.1', '[::1]'], []],
  ['0.0.0.0', ['127.0.0.1'], ['[::1]']],
  ['::1', ['[::1]'], ['127.0.0.1']],
] as const)('an instance at the address %s', (host, reachable, unreachable) => {
  const test = itWhere(host === '0.0.0.0' || hasIpv6, 'an address of IPv6');

  test(`is reached at ${reachable.join(' and ')}`, async () => {
    const {
      adminUrl,
      url: proxyUrl,
      logLines,
    } = await starts.proxy({
      config: {
        proxy: { host, port: 0, allowPlaintext: true },
        admin: { host, port: 0, ...tokenCredential('x') },
        callers: [{ name: 'a', credentials: [tokenCredential('token-of-a')], allow: [] }],
      },
    });
    for (const url of [proxyUrl, adminUrl])
      expect(new URL(url).hostname).toBe(host.includes(':') ? `[${host}]` : host);
    const at = (url: string, address: string) => `http://${address}:${new URL(url).port}`;
    for (const address of reachable) {
      expect((await fetch(`${at(adminUrl, address)}/healthz`)).status).toBe(200);
      const form = { method: 'POST', body: new URLSearchParams({ a: 'b' }) };
      expect((await fetch(`${at(proxyUrl, address)}/sandbox/gw/api/v4/status/1`, form)).status).toBe(401);
    }
    for (const address of unreachable)
      await expect(fetch(`${at(adminUrl, address)}/healthz`)).rejects.toThrow('fetch failed');
    // An address of IPv4 is written as such, whatever the socket.
    const peers = logLines().flatMap(({ peer }) => (peer === undefined ? [] : [peer]));
    expect(peers).toEqual(reachable.map((address) => address.replaceAll(/[[\]]/g, '')));
  });
});
