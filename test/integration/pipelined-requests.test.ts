import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { paths } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const { balance, transfer } = paths;

const wrong = formRequest(balance, 'a=%zz');
const right = formRequest(balance, 'a=b');

const starts = harness(afterAll);

describe.each([
  ['TCP', false],
  ['TLS', true],
])('over %s', (_transport, tls) => {
  let edge: Edge;

  beforeAll(async () => {
    edge = await starts.edge({ tls });
  });
  afterEach(() => {
    edge.gateway.requests.splice(0);
    edge.gateway.respond = (response) => response.end('OK');
  });

  /** Delays the gateway's response. Resolves at the next request to a function that sends the response. */
  function hold(): Promise<() => void> {
    return new Promise((resolve) => {
      edge.gateway.respond = (response) => resolve(() => response.end('paid'));
    });
  }

  /** The second of two requests got its response: it was not processed, and the connection ends. */
  async function expectRejectedBehind(connection: RawConnection): Promise<void> {
    const response = await connection.response();
    expectProblem(response, 'pipelined');
    expect(response.headers.connection).toBe('close');
    expect(await connection.ended()).toBe('FIN');
  }

  describe('a request that comes before the response to the one before it', () => {
    const [first, second] = [
      formRequest(transfer, 'client_orderid=1'),
      formRequest(transfer, 'client_orderid=22'),
    ];

    it.each([
      ['at once', first + second, ''],
      ['later', first, second],
      ['in two pieces', first + second.slice(0, 100), second.slice(100)],
      ['and never ends', first + second.slice(0, -1), ''],
      ['with hundreds behind it', first + second.repeat(300), second.repeat(300)],
    ])(
      'gets a 503 behind that response, which is complete, and the connection ends: %s',
      async (_, now, then) => {
        const before = (await edge.requestLines(0)).length;
        const connection = await edge.connect();
        const held = hold();
        connection.send(now);
        const release = await held;
        connection.send(then);
        await wait(50);
        release();
        const response = await connection.response();
        expect([response.body.toString(), response.headers.connection]).toEqual(['paid', 'keep-alive']);
        await expectRejectedBehind(connection);
        expect(edge.gateway.requests).toHaveLength(1);
        const lines = (await edge.requestLines(before + 2)).slice(before);
        expect(lines.map(({ status, reason, outcome }) => ({ status, reason, outcome }))).toEqual([
          { status: 200, reason: undefined, outcome: 'answered' },
          { status: 503, reason: 'pipelined', outcome: 'not-sent' },
        ]);
      },
    );

    it('is not processed either if its client ends its side', async () => {
      const connection = await edge.connect();
      const held = hold();
      connection.send(first + second).finish();
      const release = await held;
      await wait(20);
      release();
      expect((await connection.response()).body.toString()).toBe('paid');
      await expectRejectedBehind(connection);
    });
  });

  describe('pipelined requests', () => {
    it.each([
      ['400', wrong],
      ['401', right.replace('\r\n\r\n', '\r\nAuthorization: Bearer wrong\r\n\r\n')],
      ['405', `GET ${balance} HTTP/1.1\r\nHost: countersign.test\r\n\r\n`],
    ])(
      'are not processed after an error response with %s, which is sent completely',
      async (status, rejected) => {
        const connection = await edge.connect();
        connection.send(rejected + formRequest(transfer, 'client_orderid=1').repeat(500));
        const response = await connection.response();
        expect([response.status, response.headers.connection]).toEqual([Number(status), 'close']);
        expect(await connection.ended()).toBe('FIN');
        expect(edge.gateway.requests).toHaveLength(0);
      },
    );

    it('are not processed after a response with "Connection: close"', async () => {
      const connection = await edge.connect();
      connection.send(formRequest(balance, '', ['Content-Type: text/plain', 'Content-Length: 3']));
      const response = await connection.response();
      expect(response.headers.connection).toBe('close');
      connection.send(`a=b${formRequest(transfer, 'client_orderid=1')}`);
      expect(await connection.ended()).toBe('FIN');
      expect(edge.gateway.requests).toHaveLength(0);
    });
  });

  it('half a head whose time ends while the response before is pending gets a response behind that one', async () => {
    const slow = await starts.edge({ tls, config: { proxy: { port: 0, timeouts: { headers: '300ms' } } } });
    slow.gateway.respond = (response) => void setTimeout(() => response.end('paid'), 1_000);
    const connection = await slow.connect();
    connection.send(
      formRequest(transfer, 'client_orderid=1') + formRequest(transfer, 'client_orderid=2').slice(0, 100),
    );
    expect((await connection.response()).body.toString()).toBe('paid');
    expectProblem(await connection.response(), 'request-timeout');
    connection.send(formRequest(transfer, 'client_orderid=2').slice(100));
    expect(await connection.ended()).toBe('FIN');
    expect(slow.gateway.requests).toHaveLength(1);
  });

  it('a client that sends each request right behind the last byte of the response before is never cut off', async () => {
    const connection = await edge.connect();
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

  describe('bytes after a payment that are not HTTP', () => {
    it.each([
      ['garbage', formRequest(transfer, 'client_orderid=1'), 'garbage\r\n\r\n', 400],
      [
        'a request after "close"',
        formRequest(transfer, 'client_orderid=1', ['Connection: close']),
        right,
        undefined,
      ],
      [
        'a tunnel',
        formRequest(transfer, 'client_orderid=1'),
        'CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n',
        405,
      ],
    ])('get a response after that of the payment, if any: %s', async (_, payment, behind, status) => {
      const before = (await edge.requestLines(0)).length;
      const connection = await edge.connect();
      const held = hold();
      connection.send(payment);
      const release = await held;
      connection.send(behind);
      await wait(50);
      release();
      const response = await connection.response();
      expect(response.body.toString()).toBe('paid');
      expect(response.headers['countersign-outcome']).toBe('answered');
      if (status !== undefined) {
        expect(await connection.response()).toMatchObject({ status, headers: { connection: 'close' } });
      }
      expect(await connection.ended()).toBe('FIN');
      expect(edge.gateway.requests).toHaveLength(1);
      const lines = (await edge.requestLines(before + 1)).slice(before);
      expect(lines[0]).toMatchObject({ outcome: 'answered', operation: 'transfer' });
      expect(lines).toHaveLength(status === undefined ? 1 : 2);
    });
  });

  describe('a request with an Upgrade header', () => {
    const upgrade = ['Connection: upgrade', 'Upgrade: h2c'];

    it.each([
      ['in one piece', 0],
      ['in two pieces', 100],
    ])('is processed, but nothing after it, also %s', async (_, pause) => {
      const connection = await edge.connect();
      const smuggled = formRequest(transfer, 'client_orderid=2');
      const [head = ''] = formRequest(transfer, 'x'.repeat(smuggled.length)).split('\r\n\r\n');
      connection.send(`${formRequest(transfer, 'client_orderid=1', upgrade)}${head}\r\n\r\n`);
      await wait(pause);
      connection.send(smuggled);
      expect(await connection.response()).toMatchObject({ status: 200, headers: { connection: 'close' } });
      expect(await connection.ended()).toBe('FIN');
      expect(edge.gateway.requests).toHaveLength(1);
    });
  });

  it('nothing is processed after an HTTP/1.0 request, whose response may end with the connection', async () => {
    const connection = await edge.connect();
    edge.gateway.respond = (response) => {
      response.write(Buffer.alloc(1_500_000));
      response.end();
    };
    const request = formRequest(transfer, 'client_orderid=1', ['Connection: keep-alive']).replace(
      'HTTP/1.1',
      'HTTP/1.0',
    );
    connection.send(request + request);
    await connection.gone();
    expect(edge.gateway.requests).toHaveLength(1);
  });
});

// Node's parser would pause the socket at the first of them, and end the process at one after that.
it('pipelined requests are not processed behind a large response of a process that stops', async () => {
  const gateway = await starts.recordingGateway();
  const stopping = await starts.process({ gateway: gateway.url });
  const large = 'x'.repeat(500_000);
  const held = new Promise<() => void>((resolve) => {
    gateway.respond = (response) => resolve(() => response.end(large));
  });
  const connection = starts.closing(await RawConnection.open(stopping.url));
  connection.send(right + right.repeat(500));
  const release = await held;
  const stopped = stopping.stop();
  await until(() => stopping.logLines('shutting down: draining in-flight requests').length === 1);
  release();
  expect((await connection.response()).body.toString()).toBe(large);
  expect(await connection.ended()).toBe('FIN');
  expect(await stopped).toBe(0);
});
