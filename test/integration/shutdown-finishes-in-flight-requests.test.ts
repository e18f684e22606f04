import { readdirSync } from 'node:fs';
import { Agent, get, request as httpRequest } from 'node:http';
import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type FaultyGateway, reply, type Script, startFaultyGateway } from '../support/faulty-gateway.ts';
import { paths, post, transferForm, until, verdict } from '../support/forwarding.ts';
import { acquire } from '../support/port-lock.ts';
import { configFor, type ServeOptions, type ServeProcess, spawnServe } from '../support/process.ts';

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

const ok = reply('200 OK', 'status=approved\n');

function serve(options: ServeOptions): ServeProcess {
  const process = spawnServe(options);
  stops.push(process.clear);
  return process;
}

interface UnderWay {
  readonly gateway: FaultyGateway;
  readonly process: ServeProcess;
  readonly url: string;
  readonly adminUrl: string;
  /** Lets the gateway respond. */
  readonly letGo: () => void;
}

/** A process whose gateway delays every response. */
async function startHeld(shutdown: string): Promise<UnderWay> {
  const going = Promise.withResolvers<void>();
  const held: Script = async ({ request, end }) => {
    await request();
    await going.promise;
    end(ok);
  };
  const gateway = await startFaultyGateway([held]);
  stops.push(gateway.close);
  const process = serve({
    config: configFor(gateway.url, { proxy: { port: 0, timeouts: { shutdownDelay: '0s', shutdown } } }),
  });
  return { gateway, process, ...(await process.started()), letGo: () => going.resolve() };
}

describe('SIGTERM', () => {
  it('ends an idle process with exit code 0', async () => {
    const process = serve({ config: configFor('http://127.0.0.1:9') });
    await process.started();
    process.signal('SIGTERM');
    expect(await process.ended).toBe(0);
    expect(process.lines('stopped')).toHaveLength(1);
    expect(process.stderr()).toBe('');
  });

  it('finishes an in-flight request, accepts no new one, reports it on /readyz, and exits with 0', async () => {
    const { gateway, process, url, adminUrl, letGo } = await startHeld('10s');
    expect(await statusOf(`${adminUrl}/readyz`)).toBe(200);
    const response = post(`${url}${paths.transfer}`, transferForm);
    await until(() => gateway.requests().length === 1);
    process.signal('SIGTERM');
    await until(async () => (await statusOf(`${adminUrl}/readyz`)) === 503);
    expect(await statusOf(`${adminUrl}/healthz`)).toBe(200);
    await expect(post(`${url}${paths.transfer}`, transferForm)).rejects.toMatchObject({
      code: 'ECONNREFUSED',
    });
    letGo();
    expect(await response).toMatchObject({ status: 200, body: 'status=approved\n', complete: true });
    expect(await process.ended).toBe(0);
    expect(process.lines('request completed')).toEqual([
      expect.objectContaining({ status: 200, outcome: 'answered' }),
    ]);
    expect(process.lines('shutting down: draining in-flight requests')).toHaveLength(1);
    expect(process.lines('stopped')).toHaveLength(1);
    expect(gateway.requests()).toHaveLength(1);
  });

  it('does not wait for a client that keeps its connection open after its response', async () => {
    const { gateway, process, url, letGo } = await startHeld('10s');
    const agent = new Agent({ keepAlive: true });
    const status = keptAlive(`${url}${paths.transfer}`, agent);
    await until(() => gateway.requests().length === 1);
    const began = performance.now();
    process.signal('SIGTERM');
    await until(() => process.lines('shutting down: draining in-flight requests').length > 0);
    letGo();
    expect(await status).toBe(200);
    expect(await process.ended).toBe(0);
    expect(performance.now() - began).toBeLessThan(5_000);
    agent.destroy();
  });

  it('finishes a transfer whose client has disconnected', async () => {
    const { gateway, process, url, letGo } = await startHeld('10s');
    const leaving = new AbortController();
    const response = fetch(`${url}${paths.transfer}`, {
      method: 'POST',
      body: new URLSearchParams(transferForm),
      signal: leaving.signal,
    });
    await until(() => gateway.requests().length === 1);
    leaving.abort();
    await expect(response).rejects.toThrow();
    process.signal('SIGTERM');
    await until(() => process.lines('shutting down: draining in-flight requests').length > 0);
    letGo();
    expect(await process.ended).toBe(0);
    expect(process.lines('request completed')).toEqual([
      expect.objectContaining({ status: 200, outcome: 'answered' }),
    ]);
  });

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'followed by %s still finishes in-flight requests',
    async (another) => {
      const { gateway, process, url, adminUrl, letGo } = await startHeld('10s');
      const response = post(`${url}${paths.transfer}`, transferForm);
      await until(() => gateway.requests().length === 1);
      process.signal('SIGTERM');
      await until(() => process.lines('shutting down: draining in-flight requests').length > 0);
      process.signal(another);
      expect(await statusOf(`${adminUrl}/readyz`)).toBe(503);
      letGo();
      expect(await response).toMatchObject({ status: 200, complete: true });
      expect(await process.ended).toBe(0);
      expect(process.lines('configuration reloaded')).toHaveLength(0);
    },
  );

  it('gives up at the shutdown timeout with exit code 1, and reports it to the client and in the log', async () => {
    const { gateway, process, url } = await startHeld('300ms');
    const response = post(`${url}${paths.transfer}`, transferForm);
    await until(() => gateway.requests().length === 1);
    const began = performance.now();
    process.signal('SIGTERM');
    expect(verdict(await response)).toBe('504 gateway-timeout unknown unknown');
    expect(await process.ended).toBe(1);
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(process.lines('shutdown timeout: requests still in flight')).toHaveLength(1);
    expect(process.lines('request completed')).toEqual([expect.objectContaining({ outcome: 'unknown' })]);
  });
});

it('a request without a connection at the shutdown timeout is reported as not sent', async () => {
  const gateway = await startFaultyGateway([() => {}]);
  const process = serve({
    config: configFor(gateway.url.replace('http:', 'https:'), {
      proxy: { port: 0, timeouts: { shutdownDelay: '0s', shutdown: '200ms' } },
    }),
  });
  stops.push(gateway.close);
  const { url } = await process.started();
  const response = post(`${url}${paths.transfer}`, transferForm);
  await until(() => gateway.connections() === 1);
  process.signal('SIGTERM');
  expect(verdict(await response)).toBe('503 shutting-down not-sent not-sent');
  expect(await process.ended).toBe(1);
  expect(process.lines('request completed')).toEqual([
    expect.objectContaining({ reason: 'shutting-down', outcome: 'not-sent' }),
  ]);
});

describe('a process that cannot start ends at once', () => {
  it.each(['proxy', 'admin'])('if the %s port is in use, with exit code 1', async (which) => {
    const holder = createServer();
    await new Promise<void>((resolve) => {
      holder.listen(0, '127.0.0.1', resolve);
    });
    const address = holder.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const process = serve({ config: configFor('http://127.0.0.1:9', { [which]: { port } }) });
    expect(await process.ended).toBe(1);
    expect(process.stderr()).toBe(
      `Countersign cannot start: listen EADDRINUSE: address already in use 127.0.0.1:${port}\n`,
    );
    expect(process.lines('started')).toHaveLength(0);
    holder.close();
  });

  it('when certificates would not be verified, with exit code 2', async () => {
    const process = serve({
      config: configFor('http://127.0.0.1:9'),
      env: { NODE_TLS_REJECT_UNAUTHORIZED: '0' },
    });
    expect(await process.ended).toBe(2);
    expect(process.stderr()).toContain('NODE_TLS_REJECT_UNAUTHORIZED=0 disables certificate verification');
    expect(process.lines('started')).toHaveLength(0);
  });

  it('when Node would print the headers of requests, with exit code 2', async () => {
    const process = serve({ config: configFor('http://127.0.0.1:9'), env: { NODE_DEBUG: 'net' } });
    expect(await process.ended).toBe(2);
    expect(process.stderr()).toContain('NODE_DEBUG makes Node print');
    expect(process.lines('started')).toHaveLength(0);
  });

  it('when the configuration has problems, with all of them and exit code 2', async () => {
    const process = serve({ config: 'environments: {}\nkeys: { source: directory }\n' });
    expect(await process.ended).toBe(2);
    expect(process.stderr()).toContain('environments');
    expect(process.stderr()).toContain('keys');
  });
});

it('the embedded default deletes its keys on exit, even if its fixed ports are in use', async () => {
  const release = await acquire();
  stops.push(async () => release());
  const process = serve({});
  const keys = () => readdirSync(process.folder).filter((name) => name.startsWith('countersign-keys-'));
  const isRunning = () => process.lines('started').length > 0;
  await until(() => isRunning() || process.child.exitCode !== null);
  const running = isRunning();
  if (running) expect(keys()).toHaveLength(1);
  process.signal('SIGINT');
  expect(await process.ended).toBe(running ? 0 : 1);
  expect(keys()).toHaveLength(0);
  expect(process.stderr()).toMatch(running ? /^$/ : /EADDRINUSE/);
});

function statusOf(url: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    get(url, { agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    }).once('error', reject);
  });
}

function keptAlive(url: string, agent: Agent): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const request = httpRequest(url, { method: 'POST', agent, headers }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode));
    });
    request.once('error', reject).end(transferForm);
  });
}
