import { request as httpRequest } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { httpResponse, once, type Script } from '../support/faulty-gateway.ts';
import { paths, transferForm } from '../support/forwarding.ts';
import { harness, type Pair } from '../support/harness.ts';
import { formRequest } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const starts = harness();

const serialNumber = '00000000-0000-4000-8000-00000000002a';
const approved = `type=transfer-response\n&serial-number=${serialNumber}\n&status=approved\n`;
const mebibyte = 1_048_576;

const startPair = (...scripts: Script[]): Promise<Pair> => starts.pair(scripts);

/** For responses that are not complete in time, although their head is, on a busy machine too. */
const startHastyPair = (...scripts: Script[]): Promise<Pair> =>
  starts.pair(scripts, { sandbox: { timeouts: { connect: '1s', request: '2s' } } });

const chunked = (body: string): string =>
  `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n`;

describe('the gateway’s response is forwarded if it is', () => {
  it.each([
    ['approved', '200 OK', approved],
    ['a creation', '201 Created', 'made'],
    ['nothing', '204 No Content', ''],
    ['a wrong request', '400 Bad Request', '<h1>Bad</h1>'],
    ['a rejected login', '401 Unauthorized', '<h1>No</h1>'],
    ['a rejection', '403 Forbidden', '<h1>Access is denied</h1>'],
    ['too many requests', '429 Too Many Requests', ''],
    ['a failure', '500 Internal Server Error', '<h1>Oh</h1>'],
    ['an unavailable server', '503 Service Unavailable', ''],
    ['an unregistered status', '599 What', 'x'],
  ])('%s', async (_what, status, body) => {
    const { gateway, proxy } = await startPair(once(httpResponse(status, body)));
    const response = await proxy.transfer();
    const code = Number(status.slice(0, 3));
    expect(response).toMatchObject({ status: code, body, complete: true });
    expect(response.headers).toMatchObject({
      'countersign-outcome': 'answered',
      'proxy-status': expect.stringMatching(new RegExp(`^countersign; received-status=${code}(;|$)`)),
    });
    expect(gateway.requests()).toHaveLength(1);
    const [line] = await proxy.requestLines();
    expect(line).toMatchObject({ status: code, gatewayStatus: code, outcome: 'answered', attempts: 1 });
    expect(line).not.toHaveProperty('reason');
    const labels = { operation: 'transfer', reason: 'none', status: String(code === 599 ? 'other' : code) };
    expect(await proxy.counted('requests_total', labels)).toBe(1);
    const { status: statusLabel } = labels;
    expect(await proxy.counted('gateway_responses_total', { status: statusLabel })).toBe(1);
    const fault = code >= 500 ? 'gateway' : 'none';
    expect(await proxy.counted('request_outcomes_total', { outcome: 'answered', fault })).toBe(1);
  });

  it('of another HTTP version, without a length, ended by the end of the connection', async () => {
    const { proxy } = await startPair(once(`HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n${approved}`));
    expect(await proxy.balance()).toMatchObject({ status: 200, body: approved, complete: true });
  });

  it('chunked', async () => {
    const { proxy } = await startPair(once(`${chunked(approved)}0\r\n\r\n`));
    expect(await proxy.transfer()).toMatchObject({ status: 200, body: approved, complete: true });
  });

  it('preceded by interim responses, which are not forwarded', async () => {
    const interim = 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n';
    const { proxy } = await startPair(once(`${interim}${httpResponse('200 OK', approved)}`));
    const response = await proxy.transfer();
    expect(response).toMatchObject({ status: 200, body: approved });
    expect(response.headers).not.toHaveProperty('link');
  });

  it('slower than the connect timeout', async () => {
    const slow: Script = async ({ request, end }) => {
      await request();
      setTimeout(() => end(httpResponse('200 OK', approved)), 1_200);
    };
    const { proxy } = await startHastyPair(slow);
    expect(await proxy.transfer()).toMatchObject({ status: 200, body: approved });
  });
});

it.each(['301', '302', '303', '307', '308'])(
  'a redirect (%s) is forwarded and not followed',
  async (status) => {
    const elsewhere = await starts.gateway([once(httpResponse('200 OK', 'followed'))]);
    const headers = [`Location: ${elsewhere.url}/gw/`, 'Content-Type: text/html'];
    const { gateway, proxy } = await startPair(once(httpResponse(`${status} Found`, 'moved', headers)));
    const response = await proxy.transfer();
    expect(response).toMatchObject({ status: Number(status), body: 'moved' });
    expect(response.headers).not.toHaveProperty('location');
    expect(gateway.requests()).toHaveLength(1);
    expect(elsewhere.connections()).toBe(0);
  },
);

it('the skew between the gateway’s clock and ours is measured', async () => {
  const headers = ['Date: Thu, 15 Jan 2026 12:00:40 GMT', 'Content-Type: text/html'];
  const gateway = await starts.gateway([once(httpResponse('200 OK', approved, headers))]);
  const proxy = await starts.proxy({ gateway: gateway.url, clock: () => Date.UTC(2026, 0, 15, 12) });
  await proxy.transfer();
  expect(await proxy.counted('gateway_clock_skew_seconds', { environment: 'sandbox' })).toBe(40);
});

it.each([
  ['compressed', ['Content-Encoding: gzip'], 1],
  ['coded twice', ['Content-Encoding: deflate, br'], 1],
  ['coded as nobody knows', ['content-encoding: X-Own'], 1],
  ['coded by name only', ['Content-Encoding: Identity'], 0],
  ['coded by name only, twice', ['Content-Encoding: identity', 'content-encoding: IDENTITY'], 0],
  ['coded with nothing', ['Content-Encoding:'], 0],
  ['coded after a name only', ['Content-Encoding: identity, br'], 1],
  ['not coded', [], 0],
])('a response that is %s is forwarded, and counted if it cannot be read', async (_what, headers, coded) => {
  const response = httpResponse('200 OK', approved, ['Content-Type: text/html', ...headers]);
  const { gateway, proxy } = await startPair(once(response));
  expect(await proxy.transfer()).toMatchObject({ status: 200, body: approved });
  expect(gateway.requests()[0]?.headers).toContainEqual(['Accept-Encoding', 'identity']);
  const [line] = await proxy.requestLines();
  expect(line?.['serialNumber']).toBe(coded === 1 ? undefined : serialNumber);
  expect(line?.['gatewayResult']).toBe(coded === 1 ? 'coded' : 'approved');
  expect(await proxy.counted('gateway_results_total', { result: 'coded' })).toBe(coded);
});

it('serial number and result of a form-encoded response are logged', async () => {
  const { proxy } = await startPair(once(httpResponse('200 OK', approved)));
  await proxy.transfer();
  expect((await proxy.requestLines())[0]).toMatchObject({ serialNumber, gatewayResult: 'approved' });
});

describe('a response larger than 1 MiB', () => {
  const large = 'x'.repeat(3 * mebibyte);

  it('is forwarded completely', async () => {
    const { proxy } = await startPair(once(httpResponse('200 OK', large)));
    const response = await proxy.transfer();
    expect(response).toMatchObject({ status: 200, complete: true });
    expect(response.headers['content-length']).toBe(String(large.length));
    expect(response.body === large).toBe(true);
    expect((await proxy.requestLines())[0]).toMatchObject({ status: 200, outcome: 'answered' });
  });

  it('is forwarded completely if it is chunked', async () => {
    const { proxy } = await startPair(once(`${chunked(large)}0\r\n\r\n`));
    const response = await proxy.transfer();
    expect(response.complete && response.body === large).toBe(true);
  });

  it.each([
    ['of known length', httpResponse('200 OK', large).slice(0, -3)],
    ['that is chunked', chunked(large)],
  ])('%s, truncated after its headers were forwarded, never ends well-formed', async (_what, bytes) => {
    const { gateway, proxy } = await startPair(once(bytes));
    const response = await proxy.transfer();
    expect(response).toMatchObject({ status: 200, complete: false });
    expect(gateway.requests()).toHaveLength(1);
    expect((await proxy.requestLines())[0]).toMatchObject({
      status: 200,
      reason: 'gateway-reset',
      outcome: 'unknown',
    });
    expect(await proxy.counted('request_outcomes_total', { outcome: 'unknown', fault: 'gateway' })).toBe(1);
  });

  it('without a length, for an HTTP/1.0 client, ends with a FIN if it is complete, and with a RST if not', async () => {
    const { proxy } = await startPair(once(`${chunked(large)}0\r\n\r\n`), once(chunked(large)));
    const request = formRequest(paths.transfer, transferForm).replace('HTTP/1.1', 'HTTP/1.0');
    const whole = await proxy.connect();
    expect((await whole.send(request).response()).body.length).toBe(large.length);
    expect(await whole.ended()).toBe('FIN');
    const broken = await proxy.connect();
    expect((await broken.send(request).response()).status).toBe(200);
    expect(await broken.ended()).toBe('ECONNRESET');
  });

  it('that stalls after its headers were forwarded is aborted at the timeout, and is not reported as answered', async () => {
    const stalled: Script = async ({ request, write }) => {
      await request();
      write(httpResponse('200 OK', large).slice(0, -3));
    };
    const { proxy } = await startHastyPair(stalled);
    expect(await proxy.transfer()).toMatchObject({ status: 200, complete: false });
    expect((await proxy.requestLines())[0]).toMatchObject({
      status: 200,
      reason: 'gateway-timeout',
      outcome: 'unknown',
    });
  });

  it('counts as answered if the client disconnected before, and the gateway connection is closed', async () => {
    const held = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const slow: Script = async ({ socket, request, write }) => {
      socket.once('close', () => ended.resolve());
      await request();
      await held.promise;
      write(httpResponse('200 OK', large).slice(0, -3));
    };
    const gateway = await starts.gateway([slow]);
    // With the default timeout of 30 s, only the client's disconnect can end the connection in time.
    const proxy = await starts.proxy({ gateway: gateway.url });
    const caller = await proxy.connect();
    caller.send(formRequest(paths.transfer, transferForm));
    await until(() => gateway.requests().length === 1);
    caller.reset();
    // When a later connection has its response, the end of this one has been noticed.
    await proxy.post('/nowhere', '');
    held.resolve();
    await ended.promise;
    const line = (await proxy.requestLines(2)).find(({ operation }) => operation === 'transfer');
    expect(line).toMatchObject({ status: 200, outcome: 'answered' });
    expect(line).not.toHaveProperty('reason');
  });

  it('counts as answered if the client resets the connection while it is written', async () => {
    const endless: Script = async ({ socket, request, write }) => {
      await request();
      write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
      const more = (): void => void (socket.destroyed || socket.write(chunk, more));
      const chunk = `${large.length.toString(16)}\r\n${large}\r\n`;
      more();
    };
    const { proxy } = await startPair(endless);
    const caller = httpRequest(`${proxy.url}${paths.balance}`, { method: 'POST', agent: false });
    caller.once('response', ({ socket }) => socket.resetAndDestroy()).on('error', () => {});
    caller.end();
    const [line] = await proxy.requestLines();
    expect(line).toMatchObject({ status: 200, outcome: 'answered' });
    expect(line).not.toHaveProperty('reason');
  });

  it('counts as answered if the client reads too slowly to get it before the timeout', async () => {
    const head = Promise.withResolvers<void>();
    const body = 'x'.repeat(24 * mebibyte);
    // The head is forwarded with the first bytes. All of them are more than the buffers between gateway and client hold.
    const inTwoParts: Script = async ({ request, write, end }) => {
      await request();
      const bytes = httpResponse('200 OK', body);
      write(bytes.slice(0, large.length));
      await head.promise;
      end(bytes.slice(large.length));
    };
    const { proxy } = await startHastyPair(inTwoParts);
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const caller = httpRequest(`${proxy.url}${paths.transfer}`, { method: 'POST', agent: false, headers });
    // Without a listener Node would drain the response.
    caller.on('response', (response) => {
      response.on('error', () => {});
      head.resolve();
    });
    caller.on('error', () => {}).end(transferForm);
    const [line] = await proxy.requestLines();
    expect(line).toMatchObject({ status: 200, outcome: 'answered' });
    expect(line).not.toHaveProperty('reason');
    caller.destroy();
  });

  it('counts as answered if the client disconnects', async () => {
    const { proxy } = await startPair(once(httpResponse('200 OK', large)));
    const caller = (await proxy.connect()).send(formRequest(paths.transfer, transferForm));
    await caller.received(1);
    caller.close();
    expect((await proxy.requestLines())[0]).toMatchObject({ status: 200, outcome: 'answered' });
  });
});

it('of two responses to one request on a keep-alive connection, the second is never forwarded', async () => {
  const stray = httpResponse('200 OK', '[{"name":"from another response"}]');
  const closed = Promise.withResolvers<void>();
  const poisoned: Script = async ({ socket, request, write }) => {
    socket.once('close', () => closed.resolve());
    await request();
    write(httpResponse('200 OK', '[]'));
    setTimeout(() => write(stray), 20);
  };
  const { proxy } = await startPair(poisoned, once(httpResponse('200 OK', '["own"]')));
  expect(await proxy.balance()).toMatchObject({ status: 200, body: '[]' });
  await closed.promise;
  expect(await proxy.balance()).toMatchObject({ status: 200, body: '["own"]' });
});
