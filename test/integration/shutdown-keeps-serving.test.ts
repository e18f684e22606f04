import { Agent, request as httpRequest } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import { silent, startFaultyGateway } from '../support/faulty-gateway.ts';
import { paths, post, statusForm, until } from '../support/forwarding.ts';
import { configFor, type ServeProcess, spawnServe } from '../support/process.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import { type RecordingGateway, startRecordingGateway } from '../support/recording-gateway.ts';

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

interface Running {
  readonly gateway: RecordingGateway;
  readonly process: ServeProcess;
  readonly url: string;
  readonly adminUrl: string;
}

async function run(timeouts: object, sandbox: object = {}): Promise<Running> {
  const gateway = await startRecordingGateway();
  const process = spawnServe({ config: configFor(gateway.url, { proxy: { port: 0, timeouts } }, sandbox) });
  stops.push(process.clear, () => gateway.close());
  return { gateway, process, ...(await process.started()) };
}

const transfer = (nth: number): string => formRequest(paths.transfer, `n=${nth}`);
const stopping = 'shutting down: draining in-flight requests';

describe('after SIGTERM', () => {
  it('requests are served for the shutdown delay, each connection ending with its next response', async () => {
    const { process, url, adminUrl } = await run({ shutdownDelay: '1s' });
    const kept = await RawConnection.open(url);
    expect((await kept.send(transfer(1)).answer()).headers.connection).toBe('keep-alive');
    process.signal('SIGTERM');
    await until(async () => (await fetch(`${adminUrl}/readyz`)).status === 503);
    const last = await kept.send(transfer(2)).answer();
    expect([last.status, last.headers.connection]).toEqual([200, 'close']);
    expect(await kept.ended()).toBe('FIN');
    const fresh = await (await RawConnection.open(url)).send(transfer(3)).answer();
    expect([fresh.status, fresh.headers.connection]).toEqual([200, 'close']);
    expect(await process.ended).toBe(0);
  });

  it('an idle connection is still served a moment after the port is closed, and ended a second later', async () => {
    const { process, url } = await run({ shutdownDelay: '0s' });
    const used = await RawConnection.open(url);
    const unused = await RawConnection.open(url);
    await used.send(transfer(1)).answer();
    process.signal('SIGTERM');
    await until(async () => (await RawConnection.open(url).catch(() => undefined)) === undefined);
    expect((await used.send(transfer(2)).answer()).headers.connection).toBe('close');
    const began = performance.now();
    expect(await unused.ended()).toBe('FIN');
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(await process.ended).toBe(0);
  });

  it('every pipelined payment that was received gets its response', async () => {
    const { gateway, process, url } = await run({ shutdownDelay: '300ms' });
    const going = Promise.withResolvers<void>();
    gateway.reply = (response, { body }) => void going.promise.then(() => response.end(body));
    const connection = (await RawConnection.open(url)).send([1, 2, 3, 4].map(transfer).join(''));
    await until(() => gateway.requests.length === 1);
    process.signal('SIGTERM');
    await until(() => process.lines(stopping).length === 1);
    going.resolve();
    for (const nth of [1, 2, 3, 4]) {
      const { status, headers, body } = await connection.answer();
      expect([status, headers.connection]).toEqual([200, nth === 4 ? 'close' : 'keep-alive']);
      expect(body.toString()).toMatch(new RegExp(`(^|&)n=${nth}(&|$)`));
    }
    expect(await connection.ended()).toBe('FIN');
    expect(await process.ended).toBe(0);
    expect(gateway.requests).toHaveLength(4);
  });

  it('a connection that is held open does not keep the process', async () => {
    const { process, url } = await run({ shutdownDelay: '0s', shutdown: '30s' });
    for (const bytes of ['', 'POST / HTTP/1.1\r\n', 'CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n', transfer(1)]) {
      (await RawConnection.open(url)).send(bytes);
    }
    await until(() => process.lines('request completed').length === 2);
    const began = performance.now();
    process.signal('SIGTERM');
    expect(await process.ended).toBe(0);
    expect(performance.now() - began).toBeLessThan(4_000);
  });

  it('a connection to the admin port that is held open does not keep the process', async () => {
    const { process, adminUrl } = await run({ shutdownDelay: '0s' });
    for (const bytes of ['', 'GET / HTTP/1.1\r\n', 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n']) {
      (await RawConnection.open(adminUrl)).send(bytes);
    }
    process.signal('SIGTERM');
    expect(await process.ended).toBe(0);
  });

  it('a response that its client does not read holds the process until the drain deadline', async () => {
    const { gateway, process, url } = await run({ shutdownDelay: '0s', shutdown: '1s', body: '20s' });
    gateway.reply = (response) => response.end(Buffer.alloc(16_000_000));
    const connection = await RawConnection.open(url);
    connection.pause().send(transfer(1));
    await until(() => gateway.requests.length === 1);
    const began = performance.now();
    process.signal('SIGTERM');
    expect(await process.ended).toBe(1);
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(process.lines('shutdown timeout: requests still in flight')).toHaveLength(1);
  });
});

it('a Vault that hangs does not keep the process', async () => {
  const vault = await startFaultyGateway([silent]);
  const { url: address } = vault;
  const keys = { source: 'vault', vault: { address, timeout: '60s', auth: { method: 'token', token: 'x' } } };
  const process = spawnServe({
    config: configFor(address, { keys }, { timeouts: { connect: '1s', request: '1s' } }),
  });
  stops.push(process.clear, () => vault.close());
  const { url } = await process.started();
  const answer = post(`${url}${paths.balance}`, '').catch(String);
  await until(() => vault.requests().length > 0);
  const began = performance.now();
  process.signal('SIGTERM');
  expect(await process.ended).toBe(0);
  expect(performance.now() - began).toBeLessThan(6_000);
  await answer;
});

describe('the shutdown delay is skipped', () => {
  it.each([
    ['by a second SIGTERM', ['SIGTERM', 'SIGTERM']],
    ['by SIGINT after SIGTERM', ['SIGTERM', 'SIGINT']],
    ['by SIGINT alone', ['SIGINT']],
  ] as const)('%s', async (_, signals) => {
    const { process } = await run({ shutdownDelay: '15s' });
    const began = performance.now();
    for (const signal of signals) {
      process.signal(signal);
      await wait(100);
    }
    expect(await process.ended).toBe(0);
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});

it('a restart under kept-alive load loses no request', async () => {
  const { process, url } = await run({ shutdownDelay: '1s' });
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const results: string[] = [];
  const enough = new AbortController();
  const client = async (): Promise<void> => {
    while (!enough.signal.aborted) results.push(await ask(`${url}${paths.status}`, agent));
  };
  const clients = Array.from({ length: 8 }, client);
  await until(() => results.length > 100);
  process.signal('SIGTERM');
  await until(() => process.lines(stopping).length === 1);
  await wait(500);
  enough.abort();
  await Promise.all(clients);
  expect(await process.ended).toBe(0);
  agent.destroy();
  expect(new Set(results)).toEqual(new Set(['200']));
});

function ask(url: string, agent: Agent): Promise<string> {
  return new Promise((resolve) => {
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const request = httpRequest(url, { method: 'POST', agent, headers }, (response) => {
      response.resume().once('end', () => resolve(String(response.statusCode)));
    });
    request.once('error', (error) => resolve(error.message)).end(statusForm);
  });
}
