import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, describe, expect, it } from '@jest/globals';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const { balance, transfer } = paths;

const right = formRequest(balance, 'a=b');
const pay = (order: string, ...lines: string[]): string =>
  formRequest(transfer, `client_orderid=${order}`, lines);

const starts = harness(afterAll);

describe.each([
  ['TCP', false],
  ['TLS', true],
])('over %s', (_transport, tls) => {
  const edge = starts.sharedEdge({ tls });

  /** Sends a payment, and `behind` it while the gateway holds its response back; that comes completely. */
  async function payAndSend(first: string, behind: string, finishes = false) {
    const { connect, gateway, requestLines } = edge();
    const before = (await requestLines(0)).length;
    const connection = await connect();
    const release = gateway.hold('paid');
    connection.send(first);
    await until(() => gateway.requests.length === 1);
    connection.send(behind);
    if (finishes) connection.finish();
    await wait(50);
    release();
    const response = await connection.response();
    expect([response.body.toString(), response.headers['countersign-outcome']]).toEqual(['paid', 'answered']);
    /** The connection has ended, and nothing but the payment was sent. */
    const ended = async (lines: readonly object[]): Promise<void> => {
      expect(await connection.ended()).toBe('FIN');
      expect(gateway.requests).toHaveLength(1);
      expect((await requestLines(before + lines.length)).slice(before)).toMatchObject(lines);
    };
    return { connection, ended };
  }
  const paid = { status: 200, outcome: 'answered', operation: 'transfer' };

  it.each([
    ['later', pay('1'), pay('22'), false],
    ['in two pieces', pay('1') + pay('22').slice(0, 100), pay('22').slice(100), false],
    ['and never ends', pay('1') + pay('22').slice(0, -1), '', false],
    ['with hundreds behind it', pay('1') + pay('22').repeat(300), pay('22').repeat(300), false],
    ['and its client ends its side', pay('1'), pay('22'), true],
  ])(
    'a request that comes before the response to the one before it gets a 503 behind that, and the connection ends: %s',
    async (_, now, behind, finishes) => {
      const { connection, ended } = await payAndSend(now, behind, finishes);
      const response = await connection.response();
      expectProblem(response, 'pipelined');
      expect(response.headers.connection).toBe('close');
      await ended([paid, { status: 503, reason: 'pipelined', outcome: 'not-sent' }]);
    },
  );

  it.each([
    ['a request after "close"', pay('1', 'Connection: close'), right, undefined],
    ['garbage', pay('1'), 'garbage\r\n\r\n', 400],
    ['a tunnel', pay('1'), 'CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n', 405],
  ])(
    'what is no request gets a response behind that of the payment, if any: %s',
    async (_, payment, behind, status) => {
      const { connection, ended } = await payAndSend(payment, behind);
      if (status === undefined) return ended([paid]);
      expect(await connection.response()).toMatchObject({ status, headers: { connection: 'close' } });
      return ended([paid, { status }]);
    },
  );

  const payments = pay('1').repeat(500);
  const unread = formRequest(balance, '', ['Content-Type: text/plain', 'Content-Length: 3']);

  it.each([
    ['a 400', formRequest(balance, 'a=%zz') + payments, 400],
    ['a 401', formRequest(balance, 'a=b', ['Authorization: Bearer wrong']) + payments, 401],
    ['one to a request whose body is not read', unread, 415],
  ])(
    'nothing is processed after a response that closes the connection, which is sent completely: %s',
    async (_, bytes, status) => {
      const connection = (await edge().connect()).send(bytes);
      expect(await connection.response()).toMatchObject({ status, headers: { connection: 'close' } });
      connection.send(`a=b${pay('1')}`);
      expect(await connection.ended()).toBe('FIN');
      expect(edge().gateway.requests).toHaveLength(0);
    },
  );

  it('half a head whose time ends while the response before is pending gets a response behind that one', async () => {
    const slow = await starts.edge({ tls, config: { proxy: { port: 0, timeouts: { headers: '300ms' } } } });
    slow.gateway.respond = (response) => void setTimeout(() => response.end('paid'), 1_000);
    const connection = (await slow.connect()).send(pay('1') + pay('2').slice(0, 100));
    expect((await connection.response()).body.toString()).toBe('paid');
    expectProblem(await connection.response(), 'request-timeout');
    connection.send(pay('2').slice(100));
    expect(await connection.ended()).toBe('FIN');
    expect(slow.gateway.requests).toHaveLength(1);
  });

  it('a client that sends each request right behind the last byte of the response before is never cut off', async () => {
    const connection = await edge().connect();
    const requests = [
      right,
      formRequest(balance, `a=${'b'.repeat(60_000)}`),
      formRequest('/sandbox/unknown', 'a=b'),
    ];
    for (let count = 0; count < 300; count += 1) {
      const { status, headers } = await connection.send(requests[count % requests.length] ?? '').response();
      expect([status, headers.connection]).toEqual([count % 3 === 2 ? 404 : 200, 'keep-alive']);
    }
    connection.close();
  });

  it.each([
    ['in one piece', 0],
    ['in two pieces', 100],
  ])('a request with an Upgrade header is processed, but nothing after it, also %s', async (_, pause) => {
    const connection = await edge().connect();
    const smuggled = pay('2');
    const [head = ''] = formRequest(transfer, 'x'.repeat(smuggled.length)).split('\r\n\r\n');
    connection.send(`${pay('1', 'Connection: upgrade', 'Upgrade: h2c')}${head}\r\n\r\n`);
    await wait(pause);
    connection.send(smuggled);
    expect(await connection.response()).toMatchObject({ status: 200, headers: { connection: 'close' } });
    expect(await connection.ended()).toBe('FIN');
    expect(edge().gateway.requests).toHaveLength(1);
  });

  it('nothing is processed after an HTTP/1.0 request, whose response may end with the connection', async () => {
    const connection = await edge().connect();
    edge().gateway.respond = (response) => {
      response.write(Buffer.alloc(1_500_000));
      response.end();
    };
    await connection
      .send(pay('1', 'Connection: keep-alive').replace('HTTP/1.1', 'HTTP/1.0').repeat(2))
      .gone();
    expect(edge().gateway.requests).toHaveLength(1);
  });
});

// Node's parser would pause the socket at the first of them, and end the process at one after that.
it('pipelined requests are not processed behind a large response of a process that stops', async () => {
  const gateway = await starts.recordingGateway();
  const stopping = await starts.process({ gateway: gateway.url });
  const large = 'x'.repeat(500_000);
  const release = gateway.hold(large);
  const connection = (await stopping.connect()).send(right.repeat(501));
  await until(() => gateway.requests.length === 1);
  const stopped = stopping.stop();
  await until(() => stopping.logLines('shutting down: draining in-flight requests').length === 1);
  release();
  expect((await connection.response()).body.toString()).toBe(large);
  expect(await connection.ended()).toBe('FIN');
  expect(await stopped).toBe(0);
});
