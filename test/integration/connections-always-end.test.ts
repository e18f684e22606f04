import { describe, expect, it } from '@jest/globals';
import { paths, statusForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest, type RawConnection } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const { balance, status, transfer } = paths;

const starts = harness();

const tunnel = 'CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n';
const get = `GET ${balance} HTTP/1.1\r\nHost: x\r\n\r\n`;

describe.each([
  ['TCP', false],
  ['TLS', true],
])('over %s', (_transport, tls) => {
  describe('a connection after CONNECT or an upgrade', () => {
    it.each([
      ['at once', tunnel],
      ['behind a rejected request', get + tunnel],
      ['behind a request in flight', formRequest(balance) + tunnel],
    ])('%s is closed within seconds, even if its client keeps it open', async (_, bytes) => {
      const edge = await starts.edge({ tls, config: { proxy: { port: 0, maxConnections: 2 } } });
      for (let count = 0; count < 2; count += 1) (await edge.connect()).send(bytes);
      await until(async () => (await edge.send(formRequest(balance)).catch(() => undefined))?.status === 200);
    });
  });

  describe('a client that half-closes after its request', () => {
    it.each([
      ['a payment', formRequest(transfer, 'client_orderid=1')],
      ['a query', formRequest(status, statusForm)],
    ])('gets its response: %s', async (_, bytes) => {
      const edge = await starts.edge({ tls });
      const connection = (await edge.connect()).send(bytes).finish();
      expect((await connection.response()).headers['countersign-outcome']).toBe('answered');
      expect(await connection.ended()).toBe('FIN');
      expect(edge.gateway.requests).toHaveLength(1);
    });
  });

  const cut = formRequest(transfer, 'client_ord', ['Content-Length: 16', 'Expect: 100-continue']);

  it.each<[string, (connection: RawConnection) => unknown]>([
    ['half-closes', (connection) => connection.finish()],
    ['closes', (connection) => connection.close()],
    ['resets', (connection) => connection.reset()],
  ])('a client that %s within its body has one log line, and nothing is sent', async (how, leave) => {
    const edge = await starts.edge({ tls });
    const connection = (await edge.connect()).send(cut);
    // A RST discards what is not read yet; after 100 Continue the request has begun.
    expect((await connection.response()).status).toBe(100);
    leave(connection);
    if (how === 'half-closes') expectProblem(await connection.response(), 'caller-gone');
    await connection.ended();
    expect(await edge.requestLines()).toMatchObject([
      { reason: 'caller-gone', status: 499, outcome: 'not-sent' },
    ]);
    expect(edge.gateway.requests).toHaveLength(0);
  });

  it('a flood of pipelined requests that are rejected has one response and one log line per connection', async () => {
    const edge = await starts.edge({ tls });
    const floods = await Promise.all(Array.from({ length: 4 }, () => edge.connect()));
    for (const flood of floods) flood.send(get.repeat(20_000));
    const began = performance.now();
    expect((await edge.send(formRequest(balance))).status).toBe(200);
    expect(performance.now() - began).toBeLessThan(10_000);
    await Promise.all(floods.map((flood) => flood.gone()));
    expect(await edge.counted('requests_total', { reason: 'method-not-allowed' })).toBe(4);
    expect(edge.logText().length).toBeLessThan(10_000);
  });

  it('a truncated response closes its connection, and nothing after it is processed', async () => {
    const gateway = await starts.gateway([
      async ({ request, socket }) => {
        await request();
        socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3000000\r\n\r\n');
        socket.write('x'.repeat(2_000_000));
        setTimeout(() => socket.resetAndDestroy(), 300);
      },
    ]);
    const edge = await starts.edge({ tls, gateway: gateway.url });
    const connection = await edge.connect();
    connection.send(
      formRequest(transfer, 'client_orderid=1') + formRequest(transfer, 'client_orderid=2').repeat(3),
    );
    await connection.gone();
    expect(await edge.requestLines(1)).toEqual([expect.objectContaining({ outcome: 'unknown' })]);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(gateway.requests()).toHaveLength(1);
  });
});

it('a flood of rejected connections has a limited number of log lines, but all are counted', async () => {
  const edge = await starts.edge({ monotonic: () => 0 });
  for (let round = 0; round < 10; round += 1) {
    const floods = await Promise.all(Array.from({ length: 30 }, () => edge.connect()));
    await Promise.all(floods.map((flood) => flood.send(get).gone()));
  }
  expect(await edge.counted('requests_total', { reason: 'method-not-allowed' })).toBe(300);
  // No time has passed, so only the burst was written.
  expect(edge.logLines('request completed')).toHaveLength(100);
  expect(await edge.counted('log_lines_suppressed_total')).toBe(200);
});

it('a connection after CONNECT that is reset does not end the process or a payment in flight', async () => {
  const gateway = await starts.recordingGateway();
  const process = await starts.process({ gateway: gateway.url });
  const release = gateway.hold('paid');
  const payments = Array.from({ length: 20 }, (_, nth) => process.post(transfer, `client_orderid=${nth}`));
  await until(() => gateway.requests.length === 20);
  for (let count = 0; count < 20; count += 1) (await process.connect()).send(tunnel).reset();
  await new Promise((resolve) => setTimeout(resolve, 200));
  release();
  const responses = await Promise.all(payments);
  expect(responses.map(({ status: code, body }) => `${code} ${body}`)).toEqual(Array(20).fill('200 paid'));
  expect(process.child.exitCode).toBeNull();
  expect(process.stderr()).toBe('');
});
