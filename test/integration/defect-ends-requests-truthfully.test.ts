import { closeSync, openSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  type FaultyGateway,
  freePort,
  type Script,
  silent,
  startFaultyGateway,
} from '../support/faulty-gateway.ts';
import { paths, post, transferForm, until, verdict } from '../support/forwarding.ts';
import { configFor, type ServeProcess, spawnServe } from '../support/process.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import { testControlKey, testPrivateKey, writeKeys } from '../support/service.ts';

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

/** Code that runs in the process when it gets SIGUSR2. */
function onSignal(code: string): readonly string[] {
  const module = `process.on('SIGUSR2', () => setImmediate(() => { ${code} }))`;
  return ['--import', `data:text/javascript,${encodeURIComponent(module)}`];
}

const defect = "throw new Error('4111111111111111')";
/** And another one in each turn of the event loop that follows. */
const defects = `setInterval(() => { ${defect} }, 1); ${defect}`;

async function gatewayOf(script: Script): Promise<FaultyGateway> {
  const gateway = await startFaultyGateway([script]);
  stops.push(gateway.close);
  return gateway;
}

interface Served {
  readonly process: ServeProcess;
  readonly url: string;
}

async function serve(config: object, code = defect): Promise<Served> {
  const process = spawnServe({ config, nodeOptions: onSignal(code) });
  stops.push(process.clear);
  return { process, url: (await process.started()).url };
}

/** The two log lines that are no exchange do not count. */
const outcomes = (process: ServeProcess): string[] =>
  process
    .lines('request completed')
    .map(({ outcome, reason }) => `${String(outcome)} ${String(reason)}`)
    .sort();

async function endsByDefect(process: ServeProcess): Promise<void> {
  const began = performance.now();
  process.signal('SIGUSR2');
  expect(await process.ended).toBe(1);
  expect(performance.now() - began).toBeLessThan(3_000);
}

describe.each([
  ['one defect', defect],
  ['a defect that is followed by others', defects],
])('%s', (_name, code) => {
  it('ends each request in flight with its true outcome, in the log and to the caller', async () => {
    const answers = await gatewayOf(silent);
    const handshakes = await gatewayOf(() => {});
    const environment = (baseUrl: string) => ({ baseUrl, product: 'gw', endpoints: { '1234': 'acme' } });
    const { process, url } = await serve(
      configFor(answers.url, {
        environments: {
          sandbox: environment(answers.url),
          connecting: environment(handshakes.url.replace('http:', 'https:')),
        },
      }),
      code,
    );
    const keys = { controlKey: testControlKey, privateKey: testPrivateKey };
    writeKeys(join(process.folder, 'keys'), 'connecting', 'acme', keys);
    const inConnecting = paths.transfer.replace('sandbox', 'connecting');
    const waiting = post(`${url}${paths.transfer}`, transferForm);
    const connecting = [post(`${url}${inConnecting}`, transferForm)];
    const sending = await RawConnection.open(url);
    sending.send(formRequest(paths.transfer, 'client_orderid=', ['Content-Length: 1000', 'Accept: */*']));
    await until(() => answers.requests().length === 1 && handshakes.connections() === 1);
    await endsByDefect(process);
    expect(verdict(await waiting)).toBe('504 gateway-timeout unknown unknown');
    expect((await Promise.all(connecting)).map(verdict)).toEqual(['503 shutting-down not-sent not-sent']);
    expect(await sending.answer()).toMatchObject({
      status: 503,
      headers: { 'countersign-outcome': 'not-sent' },
    });
    sending.close();
    expect(outcomes(process)).toEqual([
      'not-sent shutting-down',
      'not-sent shutting-down',
      'unknown gateway-timeout',
    ]);
    expect(answers.requests()).toHaveLength(1);
    expect(process.stdout() + process.stderr()).not.toContain('4111111111111111');
  });
});

it('a request that waits for a key ends as not sent', async () => {
  const vault = await gatewayOf(silent);
  const gateway = await gatewayOf(silent);
  const { process, url } = await serve(
    configFor(gateway.url, {
      keys: {
        source: 'vault',
        vault: { address: vault.url, auth: { method: 'token', token: 'hvs.token' }, timeout: '20s' },
      },
    }),
  );
  const answer = post(`${url}${paths.transfer}`, transferForm);
  const { adminUrl } = await process.started();
  const inFlight = 'countersign_requests_in_flight{environment="sandbox"} 1';
  await until(async () => (await (await fetch(`${adminUrl}/metrics`)).text()).includes(inFlight));
  await endsByDefect(process);
  expect(verdict(await answer)).toBe('503 shutting-down not-sent not-sent');
  expect(outcomes(process)).toEqual(['not-sent shutting-down']);
  expect(gateway.connections()).toBe(0);
});

it('a response that is being passed on breaks off, with an unknown outcome', async () => {
  const gateway = await gatewayOf(async ({ request, write }) => {
    await request();
    write(
      `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3000000\r\n\r\n${'x'.repeat(2_000_000)}`,
    );
  });
  const { process, url } = await serve(configFor(gateway.url));
  const connection = await RawConnection.open(url);
  connection.send(formRequest(paths.transfer, transferForm));
  await connection.received(1_000_000);
  await endsByDefect(process);
  expect(await connection.gone()).toBe('ECONNRESET');
  expect(outcomes(process)).toEqual(['unknown shutting-down']);
  expect(process.lines('request completed')).toMatchObject([{ status: 200, gatewayStatus: 200 }]);
});

it('a process with a defect accepts no connection while its requests end', async () => {
  const gateway = await gatewayOf(silent);
  const { process, url } = await serve(configFor(gateway.url));
  // A body that is not read to its end keeps the process for half a second.
  const sending = await RawConnection.open(url);
  sending.send(formRequest(paths.transfer, 'client_orderid=', ['Content-Length: 1000']));
  await until(async () => process.lines('started').length === 1);
  const ending = endsByDefect(process);
  await until(() => process.lines('uncaught exception, exiting').length > 0);
  expect(await refused(url)).toBe('ECONNREFUSED');
  await ending;
  sending.close();
});

it('a process with a defect is not ready while its requests end', async () => {
  const gateway = await gatewayOf(silent);
  const { process, url } = await serve(configFor(gateway.url));
  const { adminUrl } = await process.started();
  const sending = await RawConnection.open(url);
  sending.send(formRequest(paths.transfer, 'client_orderid=', ['Content-Length: 1000']));
  expect((await fetch(`${adminUrl}/readyz`)).status).toBe(200);
  process.signal('SIGUSR2');
  await until(() => process.lines('uncaught exception, exiting').length > 0);
  const readiness = await fetch(`${adminUrl}/readyz`);
  expect(readiness.status).toBe(503);
  expect(await readiness.json()).toMatchObject({ ready: false, reasons: ['draining'] });
  expect(await process.ended).toBe(1);
  sending.close();
});

it('a log that cannot be written does not keep a process with a defect from ending', async () => {
  const gateway = await gatewayOf(silent);
  const full = openSync('/dev/full', 'w');
  const port = await freePort();
  const process = spawnServe({
    config: configFor(gateway.url, { proxy: { port, timeouts: { shutdownDelay: '0s' } } }),
    nodeOptions: onSignal(defects),
    stdout: full,
  });
  closeSync(full);
  stops.push(process.clear);
  const url = `http://127.0.0.1:${port}`;
  await until(async () => (await refused(url)) === 'connected');
  const answer = post(`${url}${paths.transfer}`, transferForm);
  await until(() => gateway.requests().length === 1);
  await endsByDefect(process);
  expect(verdict(await answer)).toBe('504 gateway-timeout unknown unknown');
});

/** The error code of a new connection, or `connected`. */
function refused(url: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) });
    socket.once('connect', () => resolve('connected'));
    socket.once('error', (error) => resolve('code' in error ? String(error.code) : error.name));
    socket.once('close', () => socket.destroy());
    socket.once('connect', () => socket.destroy());
  });
}
