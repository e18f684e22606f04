import { describe, expect, it } from '@jest/globals';
import { startBlackHole } from '../support/black-hole.ts';
import { environmentFor } from '../support/config.ts';
import { closedUrl, freePort, httpResponse, once, type Script, silent } from '../support/faulty-gateway.ts';
import { type HttpResponse, verdict } from '../support/forwarding.ts';
import { harness, type Pair } from '../support/harness.ts';
import type { ProxyOptions, TestProxy } from '../support/service.ts';

const starts = harness();

/** For what ends with a timeout. All else has the default of 30 s, so that it does not depend on the machine's speed. */
const hasty = { timeouts: { connect: '1s', request: '1400ms' } };
const approved = 'type=status-response\n&status=approved\n';

const start = (options: ProxyOptions): Promise<TestProxy> => starts.proxy({ random: () => 0, ...options });

/** A gateway that fails on its first connection and works after that. */
const startPair = (script: Script, sandbox = {}): Promise<Pair> =>
  starts.pair([script, once(httpResponse('200 OK', approved))], { random: () => 0, sandbox });

/** Checks response, log and metrics of one transfer, and that the proxy works afterwards. */
async function expectFailure(
  { gateway, proxy }: Pair,
  expected: { verdict: string; details: RegExp; attempts?: number; received: number },
): Promise<HttpResponse> {
  const response = await proxy.transfer();
  const [status, reason, outcome] = expected.verdict.split(' ');
  expect(verdict(response)).toBe(expected.verdict);
  expect(JSON.parse(response.body).detail).toMatch(expected.details);
  expect(response.headers['content-type']).toBe('application/problem+json');
  expect(response.headers['proxy-status']).toContain(`details="${reason}"`);
  expect(gateway.requests()).toHaveLength(expected.received);
  const [line] = await proxy.requestLines();
  expect(line).toMatchObject({
    operation: 'transfer',
    login: 'acme',
    status: Number(status),
    reason,
    outcome,
    attempts: expected.attempts ?? 1,
  });
  const labels = { operation: 'transfer', reason: String(reason), status: String(status) };
  expect(await proxy.counted('requests_total', labels)).toBe(1);
  expect(await proxy.counted('request_outcomes_total', { outcome: String(outcome), fault: 'gateway' })).toBe(
    1,
  );
  expect(await proxy.counted('gateway_responses_total', { operation: 'transfer' })).toBe(0);
  expect(await proxy.counted('requests_in_flight')).toBe(0);
  expect(await proxy.transfer()).toMatchObject({ status: 200, body: approved });
  return response;
}

const lost = /may have been processed.*order status by order ID.*do not send it again/s;
const unsent = /Nothing was sent; it is safe to send the request again/;

describe('a transfer is sent once and its outcome is unknown when the gateway', () => {
  const reset = { verdict: '502 gateway-reset unknown unknown', details: lost, received: 1 };
  const timeout = { verdict: '504 gateway-timeout unknown unknown', details: lost, received: 1 };
  const invalid = { verdict: '502 gateway-reply-invalid unknown unknown', details: lost, received: 1 };

  it('accepts the connection and closes it without a byte', async () => {
    await expectFailure(await startPair(({ end }) => end()), { ...reset, received: 0 });
  });

  it('resets the connection in the middle of the request', async () => {
    const inTheMiddle: Script = ({ socket, reset }) => void socket.once('data', reset);
    const { gateway, proxy } = await startPair(inTheMiddle);
    expect(verdict(await proxy.transfer())).toBe(reset.verdict);
    expect(gateway.connections()).toBe(1);
    expect(await proxy.transfer()).toMatchObject({ status: 200 });
  });

  it('resets the connection after the request', async () => {
    const afterwards: Script = async ({ request, reset }) => {
      await request();
      reset();
    };
    await expectFailure(await startPair(afterwards), reset);
  });

  it('closes the connection after the request', async () => {
    await expectFailure(await startPair(once('')), reset);
  });

  it('closes the connection within the headers of its response', async () => {
    await expectFailure(await startPair(once('HTTP/1.1 200 OK\r\nContent-Ty')), reset);
  });

  it('closes the connection before the end of a body of known length', async () => {
    const short = httpResponse('200 OK', approved).slice(0, -3);
    await expectFailureAfterHead(await startPair(once(short)));
  });

  it.each([
    ['before the last chunk', ''],
    ['within the last chunk', '0\r\n'],
    ['within the trailer', '0\r\nX-Check: 1\r\n'],
  ])('closes the connection %s', async (_where, end) => {
    const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
    await expectFailureAfterHead(await startPair(once(`${head}5\r\ntype=\r\n${end}`)));
  });

  it('resets the connection within the body of its response', async () => {
    const within: Script = async ({ request, write, socket, reset }) => {
      await request();
      write(httpResponse('200 OK', approved).slice(0, -3));
      setTimeout(() => (socket.destroyed ? undefined : reset()), 20);
    };
    await expectFailureAfterHead(await startPair(within));
  });

  it('never responds', async () => {
    const pair = await startPair(silent, hasty);
    await expectFailure(pair, timeout);
    // Milliseconds. What the gateway did not take, the signature did, on a machine that is busy.
    const [line] = await pair.proxy.requestLines();
    expect(line?.['totalMs']).toBeGreaterThan(1_300);
    expect(line?.['gatewayMs']).toBeGreaterThan(500);
    for (const time of [line?.['totalMs'], line?.['gatewayMs']]) expect(time).toBeLessThan(20_000);
  });

  it('stalls within the headers of its response', async () => {
    const stalled: Script = async ({ request, write }) => {
      await request();
      write('HTTP/1.1 200 OK\r\nContent-Le');
    };
    await expectFailure(await startPair(stalled, hasty), timeout);
  });

  it('sends the headers of its response byte by byte beyond the timeout', async () => {
    await expectFailure(
      await startPair(drip('HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n'), hasty),
      timeout,
    );
  });

  it('sends the body of its response byte by byte beyond the timeout', async () => {
    const body: Script = async (conversation) => {
      conversation.write('HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n');
      await drip('x'.repeat(60))(conversation);
    };
    await expectFailure(await startPair(body, hasty), timeout);
  });

  it('sends interim responses beyond the timeout', async () => {
    const interim: Script = async ({ request, write, socket }) => {
      await request();
      const timer = setInterval(() => write('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'), 20);
      socket.once('close', () => clearInterval(timer));
    };
    await expectFailure(await startPair(interim, hasty), timeout);
  });

  it.each([
    ['something that is not HTTP', 'this is not HTTP\r\n\r\n'],
    ['a response of another protocol', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['a status below all that there are', 'HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n'],
    ['a status that is no number', 'HTTP/1.1 abc OK\r\n\r\n'],
    ['a head that is too large', `HTTP/1.1 200 OK\r\nX-Big: ${'x'.repeat(70_000)}\r\n\r\n`],
    ['a chunk size that is none', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'],
    ['two different lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok'],
    [
      'a length and chunks',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    ],
    ['more than the length says', `${httpResponse('200 OK', approved)}and more\r\n\r\n`],
    [
      'another protocol (101)',
      'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
    ],
  ])('responds with %s', async (_what, bytes) => {
    await expectFailure(await startPair(once(bytes)), invalid);
  });

  it.each([
    ['that ends with its connection', 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n'],
    ['of HTTP/1.0', 'HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n'],
    ['with an error status', 'HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n'],
    ['whose last coding is not "chunked"', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n'],
    ['whose coding only ends like "chunked"', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: x-chunked\r\n\r\n'],
    ['whose first coding is "chunked"', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n'],
    ['with a range', 'HTTP/1.1 200 OK\r\nContent-Type: multipart/byteranges; boundary=x\r\n\r\n'],
  ])('sends a response %s, which may be a part of one', async (_what, head) => {
    for (const body of [approved, approved.slice(0, -9), '']) {
      await expectFailure(await startPair(once(`${head}${body}`)), invalid);
    }
  });

  it('sends more than a megabyte of such a response', async () => {
    const large = `HTTP/1.1 200 OK\r\n\r\n${'x'.repeat(2_000_000)}`;
    await expectFailure(await startPair(once(large)), invalid);
  });

  /** Headers were received, but they count nowhere, since there is no complete response. */
  async function expectFailureAfterHead(pair: Pair) {
    const response = await expectFailure(pair, reset);
    expect(response.complete).toBe(true);
  }
});

describe('nothing is sent when', () => {
  const unreachable = '502 gateway-unreachable not-sent not-sent';

  it('the gateway refuses the connection: three attempts are made', async () => {
    const proxy = await start({ gateway: closedUrl });
    const response = await proxy.transfer();
    expect(verdict(response)).toBe(unreachable);
    expect(JSON.parse(response.body).detail).toMatch(unsent);
    const [line] = await proxy.requestLines();
    expect(line).toMatchObject({ reason: 'gateway-unreachable', outcome: 'not-sent', attempts: 3 });
    expect(await proxy.counted('signatures_total')).toBe(3);
    expect(await proxy.counted('request_outcomes_total', { outcome: 'not-sent', fault: 'gateway' })).toBe(1);
  });

  it('the gateway’s name cannot be resolved', async () => {
    const proxy = await start({
      gateway: 'https://gateway.invalid',
      sandbox: { timeouts: { connect: '2s', request: '5s' } },
    });
    expect(verdict(await proxy.transfer())).toBe(unreachable);
  });

  it('the TLS handshake gets no response: the connect timeout applies, and the request timeout bounds all attempts', async () => {
    const gateway = await starts.gateway([() => {}]);
    const sandbox = { timeouts: { connect: '600ms', request: '1400ms' } };
    const proxy = await start({ gateway: gateway.url.replace('http:', 'https:'), sandbox });
    const began = performance.now();
    expect(verdict(await proxy.transfer())).toBe(unreachable);
    expect(performance.now() - began).toBeLessThan(10_000);
    const [line] = await proxy.requestLines();
    expect(line).toMatchObject({ attempts: gateway.connections() });
    expect(gateway.connections()).toBeGreaterThanOrEqual(2);
    expect(gateway.received()).not.toContain('oauth');
  });

  it('the gateway accepts no connection because its backlog is full', async () => {
    const { port } = starts.closing(await startBlackHole());
    const proxy = await start({ gateway: `http://127.0.0.1:${port}`, sandbox: hasty });
    expect(verdict(await proxy.transfer())).toBe(unreachable);
    expect((await proxy.requestLines())[0]).toMatchObject({ outcome: 'not-sent' });
  });
});

it('a connection that is reset immediately is retried only if nothing can have been sent', async () => {
  const { gateway, proxy } = await startPair(({ reset }) => reset());
  const { status } = await proxy.transfer();
  const [line] = await proxy.requestLines();
  expect(line).toMatchObject({ attempts: gateway.connections() });
  expect([status, gateway.connections(), gateway.requests().length]).toEqual(
    status === 200 ? [200, 2, 1] : [502, 1, 0],
  );
});

it('a transfer whose connection was refused is sent, newly signed, once the gateway is back', async () => {
  const nonces = ['nonce-1', 'nonce-2', 'nonce-3'];
  const refused = Promise.withResolvers<void>();
  const proxy = await start({
    gateway: closedUrl,
    nonce: () => nonces.shift() ?? 'none',
    // Called for the length of the delay, which is then 200 ms.
    random: () => {
      if (nonces.length === 2) refused.resolve();
      return 1;
    },
  });
  const port = await freePort();
  await proxy.reload({ environments: { sandbox: environmentFor(`http://127.0.0.1:${port}`) } });
  const response = proxy.transfer();
  await refused.promise;
  const gateway = await starts.gateway([once(httpResponse('200 OK', approved))], undefined, port);
  expect(await response).toMatchObject({ status: 200, body: approved });
  const [line] = await proxy.requestLines();
  expect(line).toMatchObject({ outcome: 'answered', status: 200 });
  // A busy machine may take longer than the delay to listen: then it is the third attempt.
  expect([2, 3]).toContain(line?.['attempts']);
  const sent = gateway.requests().map(({ body }) => /oauth_nonce=([^&]*)/.exec(body)?.[1]);
  expect(sent).toEqual([`nonce-${String(line?.['attempts'])}`]);
});

it('a failed status query is reported alike, and is not retried either', async () => {
  const { gateway, proxy } = await startPair(silent, hasty);
  expect(verdict(await proxy.status())).toBe('504 gateway-timeout unknown unknown');
  expect(gateway.requests()).toHaveLength(1);
});

/** One byte every 40 ms. */
function drip(text: string): Script {
  return async ({ request, write, socket }) => {
    await request();
    let sent = 0;
    const timer = setInterval(() => {
      write(text.charAt(sent));
      sent += 1;
    }, 40);
    socket.once('close', () => clearInterval(timer));
  };
}
