import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, jest } from '@jest/globals';
import { configFor, environmentFor } from '../support/config.ts';
import { type FaultyGateway, freePort, type Script, silent } from '../support/faulty-gateway.ts';
import { paths, post, transferForm, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { type CountersignProcess, type ProcessOptions, type ServeProcess } from '../support/process.ts';
import { codeOf, formRequest, RawConnection } from '../support/raw-http.ts';
import { testKeys, writeKeys } from '../support/service.ts';
import { until } from '../support/until.ts';

// A crashing process ends within half a second, which another program may take.
jest.retryTimes(2, { logErrorsBeforeRetry: true, retryImmediately: true });

const starts = harness();

/** Code that runs in the process when it gets SIGUSR2. */
function onSignal(code: string): readonly string[] {
  const module = `process.on('SIGUSR2', () => setImmediate(() => { ${code} }))`;
  return ['--import', `data:text/javascript,${encodeURIComponent(module)}`];
}

const bug = "throw new Error('4111111111111111')";
/** And another one in each following turn of the event loop. */
const bugs = `setInterval(() => { ${bug} }, 1); ${bug}`;

const gatewayOf = (script: Script): Promise<FaultyGateway> => starts.gateway([script]);

const serve = (options: ProcessOptions, code = bug): Promise<CountersignProcess> =>
  starts.process({ nodeOptions: onSignal(code), ...options });

/** Outcome and reason of each access line. */
const outcomes = (process: ServeProcess): string[] =>
  process
    .logLines('request completed')
    .map(({ outcome, reason }) => `${String(outcome)} ${String(reason)}`)
    .sort();

async function expectCrash(process: ServeProcess): Promise<void> {
  const began = performance.now();
  process.signal('SIGUSR2');
  expect(await process.ended).toBe(1);
  expect(performance.now() - began).toBeLessThan(8_000);
}

it('uncaught exceptions end each request in flight with its true outcome, in the log and to the caller', async () => {
  const responding = await gatewayOf(silent);
  const handshakes = await gatewayOf(() => {});
  const environments = {
    sandbox: environmentFor(responding.url),
    connecting: environmentFor(handshakes.url.replace('http:', 'https:')),
  };
  const process = await serve({ config: { environments } }, bugs);
  writeKeys(join(process.folder, 'keys'), 'connecting', 'acme', testKeys);
  const inConnecting = paths.transfer.replace('sandbox', 'connecting');
  const waiting = (await process.connect()).send(formRequest(paths.transfer, transferForm));
  const connecting = [process.post(inConnecting, transferForm)];
  const sending = await process.connect();
  sending.send(formRequest(paths.transfer, 'client_orderid=', ['Content-Length: 1000', 'Accept: */*']));
  await until(() => responding.requests().length === 1 && handshakes.connections() === 1);
  await expectCrash(process);
  expect(await waiting.response()).toMatchObject({
    status: 504,
    headers: { connection: 'close', 'countersign-outcome': 'unknown' },
  });
  waiting.close();
  expect((await Promise.all(connecting)).map(verdict)).toEqual(['503 shutting-down not-sent not-sent']);
  expect(await sending.response()).toMatchObject({
    status: 503,
    headers: { 'countersign-outcome': 'not-sent' },
  });
  sending.close();
  expect(outcomes(process)).toEqual([
    'not-sent shutting-down',
    'not-sent shutting-down',
    'unknown gateway-timeout',
  ]);
  expect(responding.requests()).toHaveLength(1);
  expect(process.stdout() + process.stderr()).not.toContain('4111111111111111');
});

it('after an uncaught exception, a response that is being forwarded is truncated, with an unknown outcome', async () => {
  const gateway = await gatewayOf(async ({ request, write }) => {
    await request();
    write(
      `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3000000\r\n\r\n${'x'.repeat(2_000_000)}`,
    );
  });
  const process = await serve({ gateway: gateway.url });
  const connection = await process.connect();
  connection.send(formRequest(paths.transfer, transferForm));
  await connection.received(1_000_000);
  await expectCrash(process);
  expect(await connection.gone()).toBe('ECONNRESET');
  expect(outcomes(process)).toEqual(['unknown shutting-down']);
  expect(process.logLines('request completed')).toMatchObject([{ status: 200, gatewayStatus: 200 }]);
});

it('a crashing process accepts no connection while its requests end', async () => {
  const gateway = await gatewayOf(silent);
  const process = await serve({ gateway: gateway.url });
  // A body that is not read to its end keeps the process for half a second.
  const sending = await process.connect();
  sending.send(formRequest(paths.transfer, 'client_orderid=', ['Content-Length: 1000']));
  const ending = expectCrash(process);
  await until(() => process.logLines('uncaught exception, exiting').length > 0);
  // The line is written within the exception, and the port is closed in the next turn.
  const closed = until(async () => (await RawConnection.open(process.url).catch(codeOf)) === 'ECONNREFUSED');
  expect(await Promise.race([closed.then(() => 'closed'), sending.gone()])).toBe('closed');
  await ending;
  sending.close();
});

it('a crashing process is not ready while its requests end', async () => {
  const gateway = await gatewayOf(silent);
  const port = await freePort();
  // It ends within a second, so it asks itself; on a busy machine that may come too late.
  const print = 'async (response) => process.stderr.write(`${response.status} ${await response.text()}`)';
  const code = `fetch('http://127.0.0.1:${port}/readyz').then(${print}); ${bug}`;
  let readiness = '';
  for (let attempt = 0; attempt < 5 && readiness === ''; attempt += 1) {
    const process = await serve({ gateway: gateway.url, config: { admin: { port } } }, code);
    const sending = await process.connect();
    sending.send(formRequest(paths.transfer, 'client_orderid=', ['Content-Length: 1000']));
    expect(await process.readiness()).toBe(200);
    await expectCrash(process);
    readiness = process.stderr();
    sending.close();
  }
  expect(readiness).toMatch(/^503 \{"ready":false,"reasons":\["draining"\]/);
});

it('a log that cannot be written does not keep a crashing process from exiting', async () => {
  const gateway = await gatewayOf(silent);
  const full = openSync('/dev/full', 'w');
  const port = await freePort();
  const process = starts.spawn({
    file: configFor(gateway.url, { proxy: { port, timeouts: { shutdownDelay: '0s' } } }),
    nodeOptions: onSignal(bugs),
    stdout: full,
  });
  closeSync(full);
  const url = `http://127.0.0.1:${port}`;
  await until(() =>
    RawConnection.open(url).then(
      (connection) => (connection.close(), true),
      () => false,
    ),
  );
  const response = post(`${url}${paths.transfer}`, transferForm);
  await until(() => gateway.requests().length === 1);
  await expectCrash(process);
  expect(verdict(await response)).toBe('504 gateway-timeout unknown unknown');
});
