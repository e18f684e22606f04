import { spawn, spawnSync } from 'node:child_process';
import { createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { createLogger } from '../../../src/observability/logger.ts';
import { startCountersign } from '../../../src/service/lifecycle.ts';
import { auditIn, recordsIn } from '../../support/audit.ts';
import { configFor } from '../../support/config.ts';
import { paths, post, transferForm, verdict } from '../../support/forwarding.ts';
import { harness } from '../../support/harness.ts';
import { listen } from '../../support/listening.ts';
import { testKeys, writeKeys } from '../../support/service.ts';
import { until } from '../../support/until.ts';

const starts = harness();

/** A service with a payment in flight, to which the gateway responds when it is released. */
async function startHeld(shutdown: string) {
  const folder = starts.folder();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const gateway = await starts.recordingGateway();
  gateway.respond = (response) => void released.then(() => response.end('status=approved\n'));
  writeKeys(folder.path, 'sandbox', 'acme', testKeys);
  const audit = auditIn(folder);
  const input = configFor(gateway.url, {
    keys: { source: 'directory', directory: folder.path },
    proxy: { port: 0, timeouts: { shutdownDelay: '0s', shutdown } },
    audit,
  });
  const lines: string[] = [];
  const log = createLogger('info', { write: (line) => void lines.push(line) });
  const service = await startCountersign({ config: configSchema.parse(input), digest: 'digest' }, { log });
  const response = post(`${service.proxyUrl}${paths.transfer}`, transferForm);
  await until(() => gateway.requests.length === 1);
  let stopped: Promise<boolean> | undefined;
  const stop = () => (stopped ??= service.stop(Promise.resolve()));
  starts.atEnd(() => {
    release();
    return stop();
  });
  return {
    stop,
    response,
    release,
    /** Another payment. */
    send: () => post(`${service.proxyUrl}${paths.transfer}`, transferForm),
    readiness: async () => (await fetch(`${service.adminUrl}/readyz`)).status,
    completed: () => lines.filter((line) => line.includes('"request completed"')),
    kinds: () => recordsIn(audit.directory).map(({ audit: kind }) => kind),
  };
}

describe('a shutdown', () => {
  it('waits for a request in flight, accepts no further one, and says on /readyz that it goes on', async () => {
    const { stop, response, send, readiness, completed, kinds, release } = await startHeld('10s');
    expect(await readiness()).toBe(200);
    const stopped = stop();
    expect(await readiness()).toBe(503);
    await expect(send()).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    expect(await readiness()).toBe(503);
    release();
    expect(await response).toMatchObject({ status: 200, body: 'status=approved\n' });
    expect(await stopped).toBe(true);
    expect(completed()).toHaveLength(1);
    expect(kinds()).toEqual(['start', 'intent', 'result', 'stop']);
    await expect(readiness()).rejects.toThrow('fetch failed');
  });

  it('aborts a payment that takes longer than its time, with an unknown outcome', async () => {
    const { stop, response, completed } = await startHeld('0s');
    expect(await stop()).toBe(false);
    expect(verdict(await response)).toBe('504 gateway-timeout unknown unknown');
    expect(completed()).toHaveLength(1);
  });
});

it.each(['admin', 'proxy'])('a start opens both ports or none: %s', async (name) => {
  const used = starts.closing(await listen(createServer()));
  const listening = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPServerWrap').length;
  await until(() => listening() === 1, 'earlier ports are closed');
  const started = starts.proxy({ config: { [name]: { port: used.port } } });
  await expect(started).rejects.toMatchObject({ code: 'EADDRINUSE' });
  await until(() => listening() === 1, 'no other port is open', 3);
});

it('after an uncaught exception the process exits with code 1 within two seconds, also if the abort never resolves', () => {
  const module = new URL('../../../src/service/shutdown.ts', import.meta.url).href;
  const code = `
    import { installCrashHandlers } from '${module}';
    const log = { message() {}, crash: (origin) => console.log('crash', origin) };
    const handlers = installCrashHandlers(log, async () => console.log('flush'));
    handlers.beforeExit(() => new Promise(() => console.log('abort')));
    // Keeps the process from ending by itself.
    setInterval(() => {}, 1000);
    setTimeout(() => { throw new Error('x'); });`;
  const args = ['--input-type=module', '--eval', code];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 15_000 });
  expect([status, stdout]).toEqual([1, 'crash uncaughtException\nabort\n']);
});

it.each([
  ['exits at once writes its last lines first', "log.message('info', 'x');", 1],
  // More than a pipe holds.
  [
    'flushes its log waits a moment for a reader that is slow',
    "for (let line = 0; line < 300; line += 1) log.message('info', 'x'.repeat(1_000)); await flush();",
    300,
  ],
])('a process that %s', async (_, code, count) => {
  const module = new URL('../../../src/service/open-log.ts', import.meta.url).href;
  const script = `
    import { openLog } from '${module}';
    const { log, flush } = openLog('info');
    ${code}
    process.exit(0);`;
  const { stdout } = spawn(process.execPath, ['--input-type=module', '--eval', script]);
  const lines = (await text(stdout)).trimEnd().split('\n');
  expect(lines.map((line): unknown => JSON.parse(line))).toHaveLength(count);
});
