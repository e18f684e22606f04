import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { silent } from '../support/faulty-gateway.ts';
import { paths, transferForm, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { type CountersignProcess } from '../support/process.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import type { RecordingGateway } from '../support/recording-gateway.ts';
import { vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();

interface Running {
  readonly gateway: RecordingGateway;
  readonly process: CountersignProcess;
}

async function run(timeouts: object): Promise<Running> {
  const gateway = await starts.recordingGateway();
  const config = { proxy: { port: 0, timeouts } };
  return { gateway, process: await starts.process({ gateway: gateway.url, config }) };
}

const transfer = (nth: number): string => formRequest(paths.transfer, `client_orderid=${nth}`);
const stopping = 'shutting down: draining in-flight requests';

describe('after SIGTERM', () => {
  it('requests are served for the shutdown delay, each connection ending with its next response', async () => {
    const { process } = await run({ shutdownDelay: '2s' });
    const kept = await process.connect();
    expect((await kept.send(transfer(1)).response()).headers.connection).toBe('keep-alive');
    process.signal('SIGTERM');
    await until(async () => (await process.readiness()) === 503);
    const last = await kept.send(transfer(2)).response();
    expect([last.status, last.headers.connection]).toEqual([200, 'close']);
    expect(await kept.ended()).toBe('FIN');
    const fresh = await (await process.connect()).send(transfer(3)).response();
    expect([fresh.status, fresh.headers.connection]).toEqual([200, 'close']);
    expect(await process.ended).toBe(0);
  });

  it('an idle connection is still served a moment after the port is closed, and ended a second later', async () => {
    const { process } = await run({ shutdownDelay: '0s' });
    const used = await process.connect();
    const unused = await process.connect();
    await used.send(transfer(1)).response();
    process.signal('SIGTERM');
    await until(async () => (await process.connect().catch(() => undefined)) === undefined);
    expect((await used.send(transfer(2)).response()).headers.connection).toBe('close');
    const began = performance.now();
    expect(await unused.ended()).toBe('FIN');
    expect(performance.now() - began).toBeLessThan(10_000);
    expect(await process.ended).toBe(0);
  });

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'and then %s a payment in flight is finished, also if its client has gone; no new one is accepted',
    async (another) => {
      const { gateway, process } = await run({ shutdownDelay: '0s', shutdown: '60s' });
      const going = Promise.withResolvers<void>();
      gateway.respond = (response) => void going.promise.then(() => response.end('status=approved\n'));
      const response = process.transfer();
      const caller = (await process.connect()).send(formRequest(paths.transfer, transferForm));
      await until(() => gateway.requests.length === 2);
      caller.close();
      process.signal('SIGTERM');
      await until(() => process.logLines(stopping).length > 0);
      process.signal(another);
      await until(async () => (await process.connect().catch(() => undefined)) === undefined);
      expect(await process.readiness()).toBe(503);
      going.resolve();
      expect(await response).toMatchObject({ status: 200, body: 'status=approved\n', complete: true });
      expect(await process.ended).toBe(0);
      const finished = expect.objectContaining({ status: 200, outcome: 'answered' });
      expect(process.logLines('request completed')).toEqual([finished, finished]);
      expect(process.logLines(stopping)).toMatchObject([{ inFlight: 2, timeoutSeconds: 60 }]);
      expect(process.logLines('configuration reloaded')).toHaveLength(0);
    },
  );

  it('a connection that is held open, also one to the admin port, does not keep the process', async () => {
    const { process } = await run({ shutdownDelay: '0s', shutdown: '30s' });
    for (const bytes of ['', 'POST / HTTP/1.1\r\n', 'CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n', transfer(1)])
      (await process.connect()).send(bytes);
    for (const bytes of ['', 'GET / HTTP/1.1\r\n', 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'])
      (await RawConnection.open(process.adminUrl)).send(bytes);
    await until(() => process.logLines('request completed').length === 2);
    const began = performance.now();
    process.signal('SIGTERM');
    expect(await process.ended).toBe(0);
    expect(performance.now() - began).toBeLessThan(12_000);
  });

  it('a response that its client does not read holds the process until the drain deadline', async () => {
    const { gateway, process } = await run({ shutdownDelay: '0s', shutdown: '1s', body: '20s' });
    gateway.respond = (response) => response.end(Buffer.alloc(16_000_000));
    const connection = await process.connect();
    connection.pause().send(transfer(1));
    await until(() => gateway.requests.length === 1);
    const began = performance.now();
    process.signal('SIGTERM');
    expect(await process.ended).toBe(1);
    expect(performance.now() - began).toBeLessThan(10_000);
    expect(process.logLines('shutdown timeout: requests still in flight')).toHaveLength(1);
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

it('a Vault that hangs does not keep the process', async () => {
  const vault = await starts.gateway([silent]);
  const { url: address } = vault;
  const keys = vaultKeys(address, { timeout: '60s' });
  const process = await starts.process({
    gateway: address,
    config: { keys },
    sandbox: { timeouts: { connect: '1s', request: '1s' } },
  });
  const response = process.balance().catch(String);
  await until(() => vault.requests().length > 0);
  const began = performance.now();
  process.signal('SIGTERM');
  expect(await process.ended).toBe(0);
  expect(performance.now() - began).toBeLessThan(15_000);
  await response;
});

describe('the shutdown delay is skipped', () => {
  it.each([
    ['by a second SIGTERM', ['SIGTERM', 'SIGTERM']],
    ['by SIGINT alone', ['SIGINT']],
  ] as const)('%s', async (_, signals) => {
    const { process } = await run({ shutdownDelay: '15s' });
    const began = performance.now();
    for (const signal of signals) {
      process.signal(signal);
      await wait(100);
    }
    expect(await process.ended).toBe(0);
    expect(performance.now() - began).toBeLessThan(10_000);
  });
});
