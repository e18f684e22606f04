import { afterEach, describe, expect, it } from '@jest/globals';
import { balance, type Edge, startEdge, status, statusForm, transfer } from '../support/edge.ts';
import { startFaultyGateway } from '../support/faulty-gateway.ts';
import { counted, post, until } from '../support/forwarding.ts';
import { configFor, spawnServe } from '../support/process.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import { startRecordingGateway } from '../support/recording-gateway.ts';

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

async function openEdge(options: Parameters<typeof startEdge>[0] = {}): Promise<Edge> {
  const edge = await startEdge(options);
  stops.push(edge.stop);
  return edge;
}

const tunnel = 'CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n';
const get = `GET ${balance} HTTP/1.1\r\nHost: x\r\n\r\n`;

describe('a connection after CONNECT or an upgrade', () => {
  it('that is reset does not end the process or a payment in flight', async () => {
    const gateway = await startRecordingGateway();
    const process = spawnServe({ config: configFor(gateway.url) });
    stops.push(process.clear, () => gateway.close());
    const { url } = await process.started();
    const going = Promise.withResolvers<void>();
    gateway.reply = (response) => void going.promise.then(() => response.end('paid'));
    const payments = Array.from({ length: 20 }, (_, nth) => post(`${url}${transfer}`, `n=${nth}`));
    await until(() => gateway.requests.length === 20);
    for (let count = 0; count < 20; count += 1) (await RawConnection.open(url)).send(tunnel).reset();
    await new Promise((resolve) => setTimeout(resolve, 200));
    going.resolve();
    const answers = await Promise.all(payments);
    expect(answers.map(({ status: code, body }) => `${code} ${body}`)).toEqual(Array(20).fill('200 paid'));
    expect(process.child.exitCode).toBeNull();
    expect(process.stderr()).toBe('');
  });

  it.each([
    ['at once', tunnel],
    ['behind a rejected request', get + tunnel],
    ['behind a request in flight', formRequest(balance) + tunnel],
  ])('%s is closed within seconds, even if its client keeps it open', async (_, bytes) => {
    const edge = await openEdge({ config: { proxy: { port: 0, maxConnections: 2 } } });
    for (let count = 0; count < 2; count += 1) (await RawConnection.open(edge.proxy.url)).send(bytes);
    await until(async () => (await edge.ask(formRequest(balance)).catch(() => undefined))?.status === 200);
  });
});

describe('a client that half-closes after its request', () => {
  it.each([
    ['a payment', formRequest(transfer, 'amount=1'), 1],
    ['a query', formRequest(status, statusForm), 1],
    ['three pipelined requests', formRequest(status, statusForm).repeat(3), 3],
  ])('gets its response: %s', async (_, bytes, count) => {
    const edge = await openEdge();
    const connection = (await RawConnection.open(edge.proxy.url)).send(bytes).finish();
    for (let nth = 0; nth < count; nth += 1) {
      expect((await connection.answer()).headers['countersign-outcome']).toBe('answered');
    }
    expect(await connection.ended()).toBe('FIN');
    expect(edge.gateway.requests).toHaveLength(count);
  });

  it('within its request gets no response, and nothing is sent', async () => {
    const edge = await openEdge();
    const cut = formRequest(transfer, 'amount=1').slice(0, -3);
    await (await RawConnection.open(edge.proxy.url)).send(cut).finish().gone();
    expect(edge.gateway.requests).toHaveLength(0);
    expect(await edge.exchanges(1)).toEqual([
      expect.objectContaining({ reason: 'caller-gone', outcome: 'not-sent' }),
    ]);
  });
});

describe('a flood of pipelined requests', () => {
  it('that are rejected has one response and one log line per connection', async () => {
    const edge = await openEdge();
    const floods = await Promise.all(Array.from({ length: 4 }, () => RawConnection.open(edge.proxy.url)));
    for (const flood of floods) flood.send(get.repeat(20_000));
    const began = performance.now();
    expect((await edge.ask(formRequest(balance))).status).toBe(200);
    expect(performance.now() - began).toBeLessThan(2_000);
    await Promise.all(floods.map((flood) => flood.gone()));
    expect(await counted(edge.proxy, 'requests_total', { reason: 'method-not-allowed' })).toBe(4);
    expect(edge.proxy.logText().length).toBeLessThan(10_000);
  });

  it('each on a separate connection has a limited number of log lines, but all are counted', async () => {
    const edge = await openEdge();
    for (let round = 0; round < 10; round += 1) {
      const floods = await Promise.all(Array.from({ length: 30 }, () => RawConnection.open(edge.proxy.url)));
      await Promise.all(floods.map((flood) => flood.send(get).gone()));
    }
    const lines = edge.proxy.logLines().filter(({ msg }) => msg === 'request completed').length;
    expect(await counted(edge.proxy, 'requests_total', { reason: 'method-not-allowed' })).toBe(300);
    expect(await counted(edge.proxy, 'log_lines_suppressed_total')).toBe(300 - lines);
    expect(lines).toBeLessThan(200);
  });

  it('that are processed does not delay the requests of other clients', async () => {
    const edge = await openEdge();
    const floods = await Promise.all(Array.from({ length: 4 }, () => RawConnection.open(edge.proxy.url)));
    for (const flood of floods) flood.send(formRequest(status, statusForm).repeat(20_000));
    await until(() => edge.gateway.requests.length > 20);
    const before = edge.gateway.requests.length;
    for (let count = 0; count < 10; count += 1) {
      expect((await edge.ask(formRequest(transfer, 'amount=1'))).status).toBe(200);
    }
    // Ten requests of other clients took turns with those of the four connections.
    expect(edge.gateway.requests.length - before).toBeLessThan(10 * 20);
    for (const flood of floods) flood.reset();
  });
});

it('a truncated response closes its connection, and nothing after it is processed', async () => {
  const gateway = await startFaultyGateway([
    async ({ request, socket }) => {
      await request();
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3000000\r\n\r\n');
      socket.write('x'.repeat(2_000_000));
      setTimeout(() => socket.resetAndDestroy(), 300);
    },
  ]);
  stops.push(gateway.close);
  const edge = await openEdge({ gateway: gateway.url });
  const connection = await RawConnection.open(edge.proxy.url);
  connection.send(formRequest(transfer, 'n=1') + formRequest(transfer, 'n=2').repeat(3));
  await connection.gone();
  expect(await edge.exchanges(1)).toEqual([expect.objectContaining({ outcome: 'unknown' })]);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(gateway.requests()).toHaveLength(1);
});
