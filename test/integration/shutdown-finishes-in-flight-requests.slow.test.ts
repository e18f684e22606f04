import { readdirSync } from 'node:fs';
import { Agent } from 'node:http';
import { createServer } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { configFor } from '../support/config.ts';
import { type FaultyGateway, httpResponse, type Script } from '../support/faulty-gateway.ts';
import { paths, post, transferForm, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { acquire } from '../support/port-lock.ts';
import { type CountersignProcess } from '../support/process.ts';
import { formRequest } from '../support/raw-http.ts';
import { noGateway } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness();

const ok = httpResponse('200 OK', 'status=approved\n');

interface HeldProcess {
  readonly gateway: FaultyGateway;
  readonly process: CountersignProcess;
  /** Lets the gateway respond. */
  readonly release: () => void;
}

/** A process whose gateway delays every response. */
async function startHeld(shutdown: string): Promise<HeldProcess> {
  const released = Promise.withResolvers<void>();
  const held: Script = async ({ request, end }) => {
    await request();
    await released.promise;
    end(ok);
  };
  const gateway = await starts.gateway([held]);
  const config = { proxy: { port: 0, timeouts: { shutdownDelay: '0s', shutdown } } };
  const process = await starts.process({ gateway: gateway.url, config });
  return { gateway, process, release: () => released.resolve() };
}

describe('SIGTERM', () => {
  it('ends an idle process with exit code 0', async () => {
    const process = await starts.process();
    expect(await process.stop()).toBe(0);
    expect(process.logLines('stopped')).toHaveLength(1);
    expect(process.stderr()).toBe('');
  });

  it('finishes an in-flight request, accepts no new one, reports it on /readyz, and exits with 0', async () => {
    const { gateway, process, release } = await startHeld('10s');
    expect(await statusOf(`${process.adminUrl}/readyz`)).toBe(200);
    const response = process.transfer();
    await until(() => gateway.requests().length === 1);
    process.signal('SIGTERM');
    await until(async () => (await statusOf(`${process.adminUrl}/readyz`)) === 503);
    expect(await statusOf(`${process.adminUrl}/healthz`)).toBe(200);
    await expect(process.transfer()).rejects.toMatchObject({
      code: 'ECONNREFUSED',
    });
    release();
    expect(await response).toMatchObject({ status: 200, body: 'status=approved\n', complete: true });
    expect(await process.ended).toBe(0);
    expect(process.logLines('request completed')).toEqual([
      expect.objectContaining({ status: 200, outcome: 'answered' }),
    ]);
    expect(process.logLines('shutting down: draining in-flight requests')).toHaveLength(1);
    expect(process.logLines('stopped')).toHaveLength(1);
    expect(gateway.requests()).toHaveLength(1);
  });

  it('does not wait for a client that keeps its connection open after its response', async () => {
    const { gateway, process, release } = await startHeld('10s');
    const agent = new Agent({ keepAlive: true });
    const response = post(`${process.url}${paths.transfer}`, transferForm, {}, { agent });
    await until(() => gateway.requests().length === 1);
    const began = performance.now();
    process.signal('SIGTERM');
    await until(() => process.logLines('shutting down: draining in-flight requests').length > 0);
    release();
    expect((await response).status).toBe(200);
    expect(await process.ended).toBe(0);
    expect(performance.now() - began).toBeLessThan(5_000);
    agent.destroy();
  });

  it('finishes a transfer whose client has disconnected', async () => {
    const { gateway, process, release } = await startHeld('10s');
    const caller = (await process.connect()).send(formRequest(paths.transfer, transferForm));
    await until(() => gateway.requests().length === 1);
    caller.close();
    process.signal('SIGTERM');
    await until(() => process.logLines('shutting down: draining in-flight requests').length > 0);
    release();
    expect(await process.ended).toBe(0);
    expect(process.logLines('request completed')).toEqual([
      expect.objectContaining({ status: 200, outcome: 'answered' }),
    ]);
  });

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'followed by %s still finishes in-flight requests',
    async (another) => {
      const { gateway, process, release } = await startHeld('10s');
      const response = process.transfer();
      await until(() => gateway.requests().length === 1);
      process.signal('SIGTERM');
      await until(() => process.logLines('shutting down: draining in-flight requests').length > 0);
      process.signal(another);
      expect(await statusOf(`${process.adminUrl}/readyz`)).toBe(503);
      release();
      expect(await response).toMatchObject({ status: 200, complete: true });
      expect(await process.ended).toBe(0);
      expect(process.logLines('configuration reloaded')).toHaveLength(0);
    },
  );

  it('gives up at the shutdown timeout with exit code 1, and reports it to the client and in the log', async () => {
    const { gateway, process } = await startHeld('300ms');
    const response = process.transfer();
    await until(() => gateway.requests().length === 1);
    const began = performance.now();
    process.signal('SIGTERM');
    expect(verdict(await response)).toBe('504 gateway-timeout unknown unknown');
    expect(await process.ended).toBe(1);
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(process.logLines('shutdown timeout: requests still in flight')).toHaveLength(1);
    expect(process.logLines('request completed')).toEqual([expect.objectContaining({ outcome: 'unknown' })]);
  });
});

it('a request without a connection at the shutdown timeout is reported as not sent', async () => {
  const gateway = await starts.gateway([() => {}]);
  const process = await starts.process({
    gateway: gateway.url.replace('http:', 'https:'),
    config: { proxy: { port: 0, timeouts: { shutdownDelay: '0s', shutdown: '200ms' } } },
  });
  const response = process.transfer();
  await until(() => gateway.connections() === 1);
  process.signal('SIGTERM');
  expect(verdict(await response)).toBe('503 shutting-down not-sent not-sent');
  expect(await process.ended).toBe(1);
  expect(process.logLines('request completed')).toEqual([
    expect.objectContaining({ reason: 'shutting-down', outcome: 'not-sent' }),
  ]);
});

it('a body that never ends does not keep the process beyond the shutdown timeout', async () => {
  const process = await starts.process({
    config: { proxy: { port: 0, timeouts: { shutdownDelay: '0s', shutdown: '200ms', body: '60s' } } },
  });
  const whole = formRequest(paths.transfer, transferForm);
  const client = (await process.connect()).send(whole.slice(0, -1));
  await until(async () => (await post(`${process.url}${paths.transfer}`, transferForm)).status > 0);
  process.signal('SIGTERM');
  const began = performance.now();
  expect(await process.ended).toBe(1);
  expect(performance.now() - began).toBeLessThan(10_000);
  client.close();
});

describe('a process that cannot start ends at once', () => {
  it.each([
    ['proxy', '--port'],
    ['admin', '--admin-port'],
  ])('if the %s port is in use, with exit code 1', async (which, option) => {
    const { port } = starts.closing(await listen(createServer()));
    const process = starts.spawn({ file: configFor(noGateway, { [which]: { port } }) });
    expect(await process.ended).toBe(1);
    expect(process.stderr()).toBe(
      `Countersign cannot start: 127.0.0.1:${port} is in use. Choose another port with ${option}.\n`,
    );
    expect(process.logLines('started')).toHaveLength(0);
  });

  it('when certificates would not be verified, with exit code 2', async () => {
    const process = starts.spawn({
      file: configFor(noGateway),
      env: { NODE_TLS_REJECT_UNAUTHORIZED: '0' },
    });
    expect(await process.ended).toBe(2);
    expect(process.stderr()).toContain('NODE_TLS_REJECT_UNAUTHORIZED=0 disables certificate verification');
    expect(process.logLines('started')).toHaveLength(0);
  });

  it('when Node would print the headers of requests, with exit code 2', async () => {
    const process = starts.spawn({ file: configFor(noGateway), env: { NODE_DEBUG: 'net' } });
    expect(await process.ended).toBe(2);
    expect(process.stderr()).toContain('NODE_DEBUG makes Node print');
    expect(process.logLines('started')).toHaveLength(0);
  });

  it('when the configuration has problems, with all of them and exit code 2', async () => {
    const process = starts.spawn({ file: 'environments: {}\nkeys: { source: directory }\n' });
    expect(await process.ended).toBe(2);
    expect(process.stderr()).toContain('environments');
    expect(process.stderr()).toContain('keys');
  });
});

it('the embedded default deletes its keys on exit, even if its fixed ports are in use', async () => {
  starts.atEnd(await acquire());
  const process = starts.spawn({});
  const keys = () => readdirSync(process.folder).filter((name) => name.startsWith('countersign-keys-'));
  const running = await process.started();
  if (running) expect(keys()).toHaveLength(1);
  process.signal('SIGINT');
  expect(await process.ended).toBe(running ? 0 : 1);
  expect(keys()).toHaveLength(0);
  expect(process.stderr()).toMatch(running ? /^$/ : / is in use\./);
});

/** Over a new connection. */
const statusOf = async (url: string): Promise<number> => (await post(url, '', {}, { method: 'GET' })).status;
