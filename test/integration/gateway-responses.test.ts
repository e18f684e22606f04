import { readFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { type FaultyGateway, httpResponse, once, type Script } from '../support/faulty-gateway.ts';
import { type HttpResponse, paths, statusForm, transferForm, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { formRequest } from '../support/raw-http.ts';
import type { RawResponse } from '../support/response-reader.ts';
import type { TestProxy } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness(afterAll);

const serialNumber = '00000000-0000-4000-8000-00000000002a';
const approved = `type=transfer-response\n&serial-number=${serialNumber}\n&status=approved\n&descriptor=a+b%26c%0A\n`;
const html = 'text/html;charset=utf-8';
const compressed = gzipSync(approved);
const axios = 'Accept: application/json, text/plain, */*';
const chunked = (body: string): string =>
  `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n`;

let gateway: FaultyGateway;
let proxy: TestProxy;
/** Of the next connection. */
let script: Script;
const respond = (bytes: string): void => {
  script = once(bytes);
};

beforeAll(async () => {
  gateway = await starts.gateway([(conversation) => script(conversation)]);
  const sandbox = { responseHeaders: ['X-Gateway-Node'] };
  proxy = await starts.proxy({ gateway: gateway.url, sandbox });
});

/** What the client of a transfer gets of these bytes of the gateway. */
function pass(bytes: string, lines: readonly string[] = []): Promise<RawResponse> {
  respond(bytes);
  return proxy.send(formRequest(paths.transfer, transferForm, lines));
}

describe('a response of the gateway', () => {
  it.each([
    ['approved', '200 OK', approved],
    ['nothing', '204 No Content', ''],
    ['a redirect, which is not followed', '302 Found', 'moved'],
    ['a wrong request', '400 Bad Request', '<h1>Bad</h1>'],
    ['a rejection', '403 Forbidden', '<h1>Access is denied</h1>'],
    ['a failure, which may have been processed', '500 Internal Server Error', '<h1>Oh</h1>'],
    ['an unregistered status', '599 What', 'x'],
  ])('is forwarded with its status and marked as the gateway’s: %s', async (_what, status, body) => {
    const before = gateway.connections();
    const headers = [`Location: ${gateway.url}/elsewhere`, `Content-Type: ${html}`];
    respond(httpResponse(status, body, headers));
    const response = await proxy.transfer();
    const code = Number(status.slice(0, 3));
    expect(response).toMatchObject({ status: code, body, complete: true });
    expect(response.headers).toMatchObject({ 'countersign-outcome': 'answered', 'content-type': html });
    expect(response.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    expect(response.headers).not.toHaveProperty('location');
    // A structured field string: printable ASCII without quotation marks and backslashes.
    const advice = /^; details="The request may have been processed\. Query the [ !#-[\]-~]+"$/;
    expect(String(response.headers['proxy-status']).split(`countersign; received-status=${code}`)).toEqual([
      '',
      code >= 500 ? expect.stringMatching(advice) : '',
    ]);
    expect(gateway.connections()).toBe(before + 1);
    const line = await proxy.lineOf(response);
    expect(line).toMatchObject({ status: code, gatewayStatus: code, outcome: 'answered', attempts: 1 });
    expect(line).not.toHaveProperty('reason');
  });

  it('is counted by its status; a 5xx of a payment may have been processed, one of a query has no effect', async () => {
    const own = await starts.proxy({ gateway: gateway.url });
    const counts = () =>
      Promise.all([
        own.counted('payment_server_errors_total', { operation: 'transfer' }),
        own.counted('request_outcomes_total', { outcome: 'answered', fault: 'gateway' }),
        own.counted('request_outcomes_total', { outcome: 'answered', fault: 'none' }),
      ]);
    for (const [status, label, ...expected] of [
      ['200 OK', '200', 0, 0, 1],
      ['403 Forbidden', '403', 0, 0, 2],
      ['500 Oh', '500', 1, 1, 2],
      ['599 What', 'other', 2, 2, 2],
    ] as const) {
      respond(httpResponse(status, ''));
      await own.transfer();
      const labels = { operation: 'transfer', status: label };
      expect([status, ...(await counts())]).toEqual([status, ...expected]);
      expect(await own.counted('requests_total', { ...labels, reason: 'none' })).toBe(1);
      expect(await own.counted('gateway_responses_total', labels)).toBe(1);
    }
    respond(httpResponse('502 Bad Gateway', ''));
    for (const send of [own.balance, own.status])
      expect((await send()).headers['proxy-status']).toBe('countersign; received-status=502');
    // Its outcome is unknown already.
    respond(httpResponse('500 Oh', 'truncated').slice(0, -3));
    expect((await own.transfer()).headers['countersign-outcome']).toBe('unknown');
    expect(await own.counted('payment_server_errors_total')).toBe(2);
  });

  it.each<[string, string, string | Buffer]>([
    ['half a megabyte', httpResponse('200 OK', 'a\n'.repeat(262_144)), 'a\n'.repeat(262_144)],
    ['in chunks', `${chunked(approved)}0\r\n\r\n`, approved],
    [
      'after interim responses',
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${httpResponse('200 OK', approved)}`,
      approved,
    ],
    [
      'every byte there is',
      `HTTP/1.1 200 OK\r\nContent-Type: ${html}\r\nContent-Length: 256\r\n\r\n`,
      Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
    ],
    [
      'what is compressed, whatever the client accepts',
      `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${compressed.length}\r\n\r\n`,
      compressed,
    ],
  ])('is forwarded byte for byte: %s', async (_what, bytes, body) => {
    script = async ({ request, write, end }) => {
      await request();
      write(bytes);
      end(typeof body === 'string' ? '' : body);
    };
    const accept = body === compressed ? [axios] : [];
    const response = await proxy.send(formRequest(paths.transfer, transferForm, accept));
    expect([response.status, response.body.equals(Buffer.from(body))]).toEqual([200, true]);
    expect(response.headers['content-encoding']).toBe(body === compressed ? 'gzip' : undefined);
    expect(response.headers).not.toHaveProperty('link');
  });

  it('to a query may be of HTTP/1.0, without a length, and later than the connect timeout', async () => {
    const timeouts = { connect: '200ms', request: '10s' };
    const own = await starts.proxy({ gateway: gateway.url, sandbox: { timeouts } });
    script = async ({ request, end }) => {
      await request();
      setTimeout(() => end(`HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n${approved}`), 400);
    };
    expect(await own.balance()).toMatchObject({ status: 200, body: approved, complete: true });
  });

  it.each([
    ['compressed', ['Content-Encoding: gzip'], 1],
    ['coded by name only, twice', ['Content-Encoding: identity', 'content-encoding: IDENTITY'], 0],
    ['coded with nothing', ['Content-Encoding:'], 0],
    ['coded after a name only', ['Content-Encoding: identity, br'], 1],
    ['not coded', [], 0],
  ])('that is %s is forwarded, and counted if it cannot be read', async (_what, headers, coded) => {
    const counted = () => proxy.counted('gateway_results_total', { result: 'coded' });
    const before = await counted();
    const bytes = httpResponse('200 OK', approved, [`Content-Type: ${html}`, ...headers]);
    const response = await pass(bytes, coded === 1 ? [axios] : []);
    expect(String(response.body)).toBe(approved);
    expect(gateway.requests().at(-1)?.headers).toContainEqual(['Accept-Encoding', 'identity']);
    const line = await proxy.lineOf(response);
    expect(line['serialNumber']).toBe(coded === 1 ? undefined : serialNumber);
    expect(line['gatewayResult']).toBe(coded === 1 ? 'coded' : 'approved');
    // What is known, and nothing of its content.
    expect(JSON.stringify(line)).not.toContain('descriptor');
    expect((await counted()) - before).toBe(coded);
  });

  it('shows the skew between the gateway’s clock and ours', async () => {
    respond(httpResponse('200 OK', approved, ['Date: Thu, 15 Jan 2026 12:00:40 GMT']));
    const own = await starts.proxy({ gateway: gateway.url, clock: () => Date.UTC(2026, 0, 15, 12) });
    await own.transfer();
    expect(await own.counted('gateway_clock_skew_seconds', { environment: 'sandbox' })).toBe(40);
  });
});

it('headers of the gateway are forwarded from a list, and cannot pose as Countersign’s', async () => {
  const { headers } = await pass(
    httpResponse('200 OK', 'text', [
      `Content-Type: ${html}`,
      'Date: Thu, 01 Jan 2026 00:00:00 GMT',
      'Retry-After: 7',
      'Cache-Control: max-age=3',
      'X-Gateway-Node: n1',
      'Set-Cookie: a=b',
      'Server: gw/1',
      'WWW-Authenticate: OAuth realm="gw"',
      'Access-Control-Allow-Origin: *',
      'Keep-Alive: timeout=999',
      'Connection: close, X-Hop',
      'X-Hop: 1',
      'Countersign-Outcome: not-sent',
      'Countersign-Order-Mismatch: order-id',
      'X-Request-Id: theirs',
      'Proxy-Status: theirs; error=dns_error',
    ]),
  );
  expect(headers).toMatchObject({
    'content-type': html,
    date: 'Thu, 01 Jan 2026 00:00:00 GMT',
    'retry-after': '7',
    'cache-control': 'max-age=3',
    'x-gateway-node': 'n1',
    'content-length': '4',
    'countersign-outcome': 'answered',
    'x-request-id': expect.not.stringContaining('theirs'),
    'proxy-status': 'countersign; received-status=200',
  });
  for (const name of ['set-cookie', 'server', 'www-authenticate', 'access-control-allow-origin', 'x-hop'])
    expect(headers).not.toHaveProperty(name);
  expect(headers).not.toHaveProperty('countersign-order-mismatch');
  expect(headers['keep-alive']).not.toBe('timeout=999');
});

describe('a form requested as JSON', () => {
  const inJson = { 'serial-number': serialNumber, status: 'approved', descriptor: 'a b&c\n' };

  it.each([['application/json'], ['the Accept header of axios', axios]])(
    'is an object of its decoded values, with its own length: %s',
    async (_what, accept = 'Accept: application/json') => {
      const { headers, body } = await pass(httpResponse('200 OK', approved), [accept]);
      expect(headers['content-type']).toBe('application/json; charset=utf-8');
      expect(headers['content-length']).toBe(String(body.length));
      expect(JSON.parse(String(body))).toEqual({ type: 'transfer-response', ...inJson });
    },
  );

  it.each([
    ['the client accepts anything', approved, html, 'Accept: */*'],
    ['it is HTML', '<a href="?a=b">', html, axios],
    ['it has more than 256 KiB', `a=${'b'.repeat(262_144)}\n`, html, axios],
    ['it is JSON', '[ {"amount": 1.000} ]\n', 'application/json', axios],
  ])('is unchanged if %s', async (_what, body, type, accept) => {
    const response = await pass(httpResponse('200 OK', body, [`Content-Type: ${type}`]), [accept]);
    expect(String(response.body)).toBe(body);
    expect(response.headers['content-type']).toBe(type);
  });
});

describe('a response larger than 1 MiB', () => {
  const large = 'x'.repeat(1_200_000);

  it.each([
    ['of known length', httpResponse('200 OK', large)],
    ['in chunks', `${chunked(large)}0\r\n\r\n`],
  ])('%s is forwarded completely', async (_what, bytes) => {
    respond(bytes);
    const response = await proxy.transfer();
    expect(response).toMatchObject({ status: 200, complete: true });
    expect(response.body === large).toBe(true);
    expect(await proxy.lineOf(response)).toMatchObject({ status: 200, outcome: 'answered' });
  });

  it.each([
    ['of known length', httpResponse('200 OK', large).slice(0, -3)],
    ['in chunks', chunked(large)],
  ])('%s, truncated after its headers were forwarded, never ends well-formed', async (_what, bytes) => {
    const before = gateway.connections();
    const unknown = () => proxy.counted('request_outcomes_total', { outcome: 'unknown', fault: 'gateway' });
    const counted = await unknown();
    respond(bytes);
    const response = await proxy.transfer();
    expect(response).toMatchObject({ status: 200, complete: false });
    expect(gateway.connections()).toBe(before + 1);
    const end = { status: 200, reason: 'gateway-reset', outcome: 'unknown' };
    expect(await proxy.lineOf(response)).toMatchObject(end);
    expect(await unknown()).toBe(counted + 1);
  });

  it('without a length, for an HTTP/1.0 client, ends with a FIN if it is complete, and with a RST if not', async () => {
    const request = formRequest(paths.transfer, transferForm).replace('HTTP/1.1', 'HTTP/1.0');
    respond(`${chunked(large)}0\r\n\r\n`);
    const whole = await proxy.connect();
    expect((await whole.send(request).response()).body.length).toBe(large.length);
    expect(await whole.ended()).toBe('FIN');
    respond(chunked(large));
    const broken = await proxy.connect();
    expect((await broken.send(request).response()).status).toBe(200);
    expect(await broken.ended()).toBe('ECONNRESET');
  });

  it('that stalls is aborted at the timeout, and not reported as answered unless the client reads too slowly', async () => {
    const timeouts = { connect: '1s', request: '1500ms' };
    const hasty = await starts.proxy({ gateway: gateway.url, sandbox: { timeouts } });
    const head = Promise.withResolvers<void>();
    // The head is forwarded with the first bytes. All of them are more than the buffers between gateway and client hold.
    script = async ({ request, write, end }) => {
      const { line } = (await request()) ?? {};
      const isOfClient = line?.includes('/status/') ?? false;
      const bytes = httpResponse('200 OK', 'x'.repeat(isOfClient ? 25_165_824 : large.length));
      write(bytes.slice(0, large.length));
      if (!isOfClient) return;
      await head.promise;
      end(bytes.slice(large.length));
    };
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const caller = httpRequest(`${hasty.url}${paths.status}`, { method: 'POST', agent: false, headers });
    // Without a listener Node would drain the response.
    caller.on('response', (response) => {
      response.on('error', () => {});
      head.resolve();
    });
    caller.on('error', () => {}).end(statusForm);
    const stalled = await hasty.transfer();
    expect(stalled).toMatchObject({ status: 200, complete: false });
    const end = { status: 200, reason: 'gateway-timeout', outcome: 'unknown' };
    expect(await hasty.lineOf(stalled)).toMatchObject(end);
    const slow = (await hasty.requestLines(2)).find(({ operation }) => operation === 'order-status');
    expect(slow).toMatchObject({ status: 200, outcome: 'answered' });
    expect(slow).not.toHaveProperty('reason');
    caller.destroy();
  });

  it('counts as answered if the client disconnected before, and the gateway connection is closed', async () => {
    const held = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    script = async ({ socket, request, write }) => {
      socket.once('close', () => ended.resolve());
      await request();
      await held.promise;
      write(httpResponse('200 OK', large).slice(0, -3));
    };
    // With the default timeout of 30 s, only the client's disconnect can end the connection in time.
    const own = await starts.proxy({ gateway: gateway.url });
    const before = gateway.requests().length;
    const caller = (await own.connect()).send(formRequest(paths.transfer, transferForm));
    await until(() => gateway.requests().length === before + 1);
    caller.reset();
    // When a later connection has its response, the end of this one has been noticed.
    await own.post('/nowhere', '');
    held.resolve();
    await ended.promise;
    const line = (await own.requestLines(2)).find(({ operation }) => operation === 'transfer');
    expect(line).toMatchObject({ status: 200, outcome: 'answered' });
    expect(line).not.toHaveProperty('reason');
  });
});

describe('a response about another order', () => {
  const mismatches = (operation: string) =>
    proxy.counted('order_mismatches_total', { environment: 'sandbox', operation, field: 'order-id' });
  const about = (id: string, more = '') =>
    httpResponse('200 OK', `type=a\n&merchant-order-id=${id}\n${more}`);

  it('is forwarded unchanged, and noticed in header, log, metrics and status', async () => {
    const response = await pass(about('invoice-8'));
    expect(String(response.body)).toBe('type=a\n&merchant-order-id=invoice-8\n');
    expect(response.headers['countersign-order-mismatch']).toBe('order-id');
    const line = { level: 'error', orderMismatch: 'order-id', outcome: 'answered' };
    expect(await proxy.lineOf(response)).toMatchObject(line);
    expect(await mismatches('transfer')).toBe(1);
    const { findings, orderMismatches } = await proxy.instanceStatus();
    expect(orderMismatches).toMatchObject([{ operation: 'transfer', login: 'acme', field: 'order-id' }]);
    expect(findings.map(({ code }) => code)).toContain('order-mismatch');
  });

  it('is noticed in JSON and to a query too; another amount is a warning', async () => {
    respond(about('invoice-8', '&status=approved\n'));
    const response = await proxy.post(paths.status, statusForm, { Accept: 'application/json' });
    expect(JSON.parse(response.body)).toMatchObject({ status: 'approved' });
    expect(response.headers['countersign-order-mismatch']).toBe('order-id');
    expect(await mismatches('order-status')).toBe(1);
    const amount = await pass(about('invoice-7', '&amount=2\n'));
    expect(amount.headers['countersign-order-mismatch']).toBe('amount');
    expect(await proxy.lineOf(amount)).toMatchObject({ level: 'warn', orderMismatch: 'amount' });
  });
});

it('two 503s look the same to a mesh but for the outcome, by which docs/payments.md has it retry', async () => {
  const page = readFileSync('docs/payments.md', 'utf8');
  const [, example = ''] = /```yaml\n([^`]*retriable_headers[^`]*)```/.exec(page) ?? [];
  const { retry_on, retriable_headers } = parse(example).route.retry_policy;
  const [{ name, string_match }, ...others] = retriable_headers;
  expect([retry_on, others]).toEqual(['retriable-headers', []]);

  respond(httpResponse('503 Service Unavailable', ''));
  const ofGateway = await proxy.transfer();
  // Without a key nothing can be sent.
  const auth = { method: 'token', tokenFile: '/dev/null' } as const;
  const vault = { address: 'http://127.0.0.1:1', auth };
  const elsewhere = await starts.proxy({
    gateway: gateway.url,
    config: { keys: { source: 'vault', vault } },
  });
  const before = gateway.connections();
  const own = await elsewhere.transfer();
  expect([ofGateway.status, ofGateway.headers['countersign-outcome']]).toEqual([503, 'answered']);
  expect(verdict(own)).toBe('503 key-source-unavailable not-sent not-sent');
  const isRetried = ({ headers }: HttpResponse) => headers[name] === string_match.exact;
  expect([isRetried(ofGateway), isRetried(own)]).toEqual([false, true]);
  expect(gateway.connections()).toBe(before);
});
