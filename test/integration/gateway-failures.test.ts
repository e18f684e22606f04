import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startBlackHole } from '../support/black-hole.ts';
import { environmentFor } from '../support/config.ts';
import {
  closedUrl,
  type FaultyGateway,
  freePort,
  httpResponse,
  once,
  type Script,
  silent,
} from '../support/faulty-gateway.ts';
import { type HttpResponse, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { type ProxyOptions, type TestProxy, writeKeys } from '../support/service.ts';

const starts = harness(afterAll);

const approved = 'type=status-response\n&status=approved\n';
const lost = /may have been processed.*payment by order ID.*refund; do not send it again/s;
const unsent = /Nothing was sent; it is safe to send the request again/;

let gateway: FaultyGateway;
let proxy: TestProxy;
/** Of the next connections; the last one is for all further ones. */
let scripts: Script[] = [];

const start = (options: ProxyOptions): Promise<TestProxy> => starts.proxy({ random: () => 0, ...options });

beforeAll(async () => {
  gateway = await starts.gateway([
    (conversation) => (scripts.length > 1 ? scripts.shift() : scripts[0])?.(conversation),
  ]);
  proxy = await start({ gateway: gateway.url });
});

/** Sends a transfer over connections with these scripts. */
async function transferOver(...given: (Script | string)[]) {
  scripts = given.map((one) => (typeof one === 'string' ? once(one) : one));
  const before = gateway.connections();
  const response = await proxy.transfer();
  return { response, line: await proxy.lineOf(response), connections: gateway.connections() - before };
}

/** After the request. */
const then =
  (react: Script): Script =>
  async (conversation) => {
    await conversation.request();
    await react(conversation);
  };

/** Every 40 ms, until the connection ends. */
const repeatedly =
  (write: (conversation: Parameters<Script>[0], turn: number) => void): Script =>
  (conversation) => {
    let turn = 0;
    const timer = setInterval(() => write(conversation, turn++), 40);
    conversation.socket.once('close', () => clearInterval(timer));
  };
const drip = (text: string): Script => repeatedly(({ write }, turn) => write(text.charAt(turn)));

const chunks = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ntype=\r\n';
const cut = httpResponse('200 OK', approved).slice(0, -3);

/** A transfer over a connection with this script is sent once, and ends like this. */
async function expectUnknown(reason: string, script: Script | string): Promise<void> {
  const { response, line, connections } = await transferOver(script);
  expect(verdict(response)).toBe(`502 ${reason} unknown unknown`);
  expect(JSON.parse(response.body).detail).toMatch(lost);
  expect(response).toMatchObject({
    complete: true,
    headers: {
      'content-type': 'application/problem+json',
      'proxy-status': expect.stringContaining(`details="${reason}"`),
    },
  });
  const end = { operation: 'transfer', login: 'acme', reason, outcome: 'unknown', attempts: 1 };
  expect([line, connections]).toEqual([expect.objectContaining(end), 1]);
}

describe('a transfer is sent once and its outcome is unknown when the gateway', () => {
  it.each<[string, Script | string]>([
    ['accepts the connection and closes it without a byte', ({ end }) => end()],
    ['resets it in the middle of the request', ({ socket, reset }) => void socket.once('data', reset)],
    ['resets the connection after the request', then(({ reset }) => reset())],
    ['closes the connection after the request', ''],
    ['closes it within the headers of its response', 'HTTP/1.1 200 OK\r\nContent-Ty'],
    ['closes it before the end of a body of known length', cut],
    ['closes it before the last chunk', chunks],
  ])('%s', (_what, script) => expectUnknown('gateway-reset', script));

  it.each([
    ['something that is not HTTP', 'this is not HTTP\r\n\r\n'],
    ['a head that is too large', `HTTP/1.1 200 OK\r\nX-Big: ${'x'.repeat(70_000)}\r\n\r\n`],
    ['a status below all that there are', 'HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n'],
    ['a length and chunks', chunks.replace('OK\r\n', 'OK\r\nContent-Length: 5\r\n')],
    ['more than the length says', `${httpResponse('200 OK', approved)}and more\r\n\r\n`],
    ['another protocol (101)', 'HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'],
    ['a megabyte without a length', `HTTP/1.1 200 OK\r\n\r\n${'x'.repeat(2_000_000)}`],
  ])('responds with %s', (_what, bytes) => expectUnknown('gateway-reply-invalid', bytes));

  it.each([
    ['that ends with its connection', 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n'],
    ['of HTTP/1.0', 'HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n'],
    ['with an error status', 'HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n'],
    ['whose last coding is not "chunked"', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n'],
    ['with a range', 'HTTP/1.1 200 OK\r\nContent-Type: multipart/byteranges; boundary=x\r\n\r\n'],
  ])('sends a response %s, which may be a part of one', async (_what, head) => {
    for (const body of [approved, '']) {
      const { response, connections } = await transferOver(head + body);
      expect([verdict(response), connections]).toEqual(['502 gateway-reply-invalid unknown unknown', 1]);
    }
  });

  it('does not end its response before the timeout, whatever it sends', async () => {
    const timeouts = { connect: '1s', request: '1s' };
    const hasty = await start({ gateway: gateway.url, sandbox: { timeouts } });
    scripts = [
      silent,
      then(({ write }) => write('HTTP/1.1 200 OK\r\nContent-Le')),
      then(drip('HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n')),
      then((conversation) => {
        conversation.write('HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n');
        return drip('x'.repeat(60))(conversation);
      }),
      then(repeatedly(({ write }) => write('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'))),
      silent,
    ];
    const before = gateway.connections();
    const responses = await Promise.all([
      ...Array.from({ length: 5 }, () => hasty.transfer()),
      // A query that fails is reported alike, and not sent again either.
      hasty.status(),
    ]);
    expect(new Set(responses.map(verdict))).toEqual(new Set(['504 gateway-timeout unknown unknown']));
    expect(gateway.connections() - before).toBe(6);
    const line = await hasty.lineOf(responses[0] ?? { headers: {} });
    expect(line).toMatchObject({ reason: 'gateway-timeout', outcome: 'unknown', attempts: 1 });
    // Milliseconds. What the gateway did not take, the signature did, on a machine that is busy.
    expect(line['totalMs']).toBeGreaterThan(900);
    expect(line['gatewayMs']).toBeGreaterThan(300);
    for (const time of [line['totalMs'], line['gatewayMs']]) expect(time).toBeLessThan(20_000);
  });

  it('fails: that is counted, and the next transfer is sent', async () => {
    const own = await start({ gateway: gateway.url });
    scripts = [once(cut), once(httpResponse('200 OK', approved))];
    await own.transfer();
    const labels = { operation: 'transfer', reason: 'gateway-reset', status: '502' };
    // Headers were received, but they count nowhere, since there is no complete response.
    const counts = [
      own.counted('requests_total', labels),
      own.counted('request_outcomes_total', { outcome: 'unknown', fault: 'gateway' }),
      own.counted('gateway_responses_total', { operation: 'transfer' }),
      own.counted('requests_in_flight'),
    ];
    expect(await Promise.all(counts)).toEqual([1, 1, 0, 0]);
    expect(await own.transfer()).toMatchObject({ status: 200, body: approved });
  });
});

describe('nothing is sent when', () => {
  const unreachable = '502 gateway-unreachable not-sent not-sent';
  const hasty = { timeouts: { connect: '300ms', request: '2s' } };

  it('the gateway refuses the connection: three attempts are made', async () => {
    const own = await start({ gateway: closedUrl });
    const response = await own.transfer();
    expect(verdict(response)).toBe(unreachable);
    expect(JSON.parse(response.body).detail).toMatch(unsent);
    const end = { reason: 'gateway-unreachable', outcome: 'not-sent', attempts: 3 };
    expect(await own.lineOf(response)).toMatchObject(end);
    expect(await own.counted('signing_duration_seconds_count')).toBe(3);
    expect(await own.counted('request_outcomes_total', { outcome: 'not-sent', fault: 'gateway' })).toBe(1);
  });

  it('the TLS handshake gets no response: the connect timeout applies, and the request timeout bounds all attempts', async () => {
    scripts = [() => {}];
    const [connections, received] = [gateway.connections(), gateway.received().length];
    const own = await start({ gateway: gateway.url.replace('http:', 'https:'), sandbox: hasty });
    const began = performance.now();
    const response = await own.transfer();
    expect(verdict(response)).toBe(unreachable);
    expect(performance.now() - began).toBeLessThan(10_000);
    const attempts = gateway.connections() - connections;
    expect(await own.lineOf(response)).toMatchObject({ attempts });
    expect(attempts).toBeGreaterThanOrEqual(2);
    expect(gateway.received().slice(received)).not.toContain('oauth');
  });

  it('the gateway accepts no connection because its backlog is full', async () => {
    const { port } = starts.closing(await startBlackHole());
    const own = await start({ gateway: `http://127.0.0.1:${port}`, sandbox: hasty });
    expect(verdict(await own.transfer())).toBe(unreachable);
  });
});

it('a connection that is reset immediately is retried only if nothing can have been sent', async () => {
  const { response, line, connections } = await transferOver(({ reset }) => reset(), httpResponse('200 OK'));
  expect([response.status, connections]).toEqual(response.status === 200 ? [200, 2] : [502, 1]);
  expect(line).toMatchObject({ attempts: connections });
});

it('a transfer whose connection was refused is sent, newly signed, once the gateway is back', async () => {
  const nonces = ['nonce-1', 'nonce-2', 'nonce-3'];
  const refused = Promise.withResolvers<void>();
  const own = await start({
    gateway: closedUrl,
    nonce: () => nonces.shift() ?? 'none',
    // Called for the length of the delay, which is then 200 ms.
    random: () => {
      if (nonces.length === 2) refused.resolve();
      return 1;
    },
  });
  const port = await freePort();
  await own.reload({ environments: { sandbox: environmentFor(`http://127.0.0.1:${port}`) } });
  const response = own.transfer();
  await refused.promise;
  const late = await starts.gateway([once(httpResponse('200 OK', approved))], undefined, port);
  expect(await response).toMatchObject({ status: 200, body: approved });
  const line = await own.lineOf(await response);
  expect(line).toMatchObject({ outcome: 'answered', status: 200 });
  // A busy machine may take longer than the delay to listen: then it is the third attempt.
  expect([2, 3]).toContain(line['attempts']);
  const sent = late.requests().map(({ body }) => /oauth_nonce=([^&]*)/.exec(body)?.[1]);
  expect(sent).toEqual([`nonce-${String(line['attempts'])}`]);
});

describe('the outcome covers all attempts', () => {
  /** A gateway that sends one response, reads a second request completely, and then goes down. */
  async function startDying(first: string, beforeFirst = (): void => {}): Promise<FaultyGateway> {
    const dying: Script = async ({ request, write, reset }) => {
      await request();
      beforeFirst();
      write(first);
      await request();
      // No connection may succeed after the reset arrives.
      const closed = one.close();
      reset();
      await closed;
    };
    const one = await starts.gateway([dying]);
    return one;
  }

  /** It is the same in the response, its text, the log and the metrics. */
  async function expectOutcome(own: TestProxy, response: HttpResponse, expected: string): Promise<void> {
    expect(verdict(response)).toBe(expected);
    const [status, reason, outcome = ''] = expected.split(' ');
    expect(await own.lineOf(response)).toMatchObject({ status: Number(status), reason, outcome });
    expect(await own.counted('request_outcomes_total', { outcome })).toBe(1);
    const { detail } = JSON.parse(response.body);
    if (reason !== 'internal' && outcome === 'unknown') expect(detail).toMatch(/ A query changes nothing, /);
    if (outcome === 'unknown') expect(detail).not.toMatch(/nothing was sent|safe to send/i);
  }
  const failAfter =
    (...nonces: string[]) =>
    (): string => {
      const nonce = nonces.shift();
      if (nonce === undefined) throw new TypeError('a bug');
      return nonce;
    };

  it('unknown: a request was sent completely on a reused connection, and the next attempt cannot connect', async () => {
    const dying = await startDying(httpResponse('200 OK', '[]'));
    const own = await start({ gateway: dying.url });
    expect(await own.balance()).toMatchObject({ status: 200 });
    const response = await own.balance();
    expect(dying.requests()).toHaveLength(2);
    await expectOutcome(own, response, '502 gateway-unreachable unknown unknown');
  });

  it('unknown: the attempt with another key after a 403 was sent completely, and the next one cannot connect', async () => {
    const rotate = (): void => writeKeys(own.keysFolder, 'sandbox', 'acme', { controlKey: 'new' });
    const dying = await startDying(httpResponse('403 Forbidden', '<h1>Access is denied</h1>'), rotate);
    const own = await start({ gateway: dying.url, keys: { acme: { controlKey: 'old' } } });
    const response = await own.balance();
    expect(dying.requests()).toHaveLength(2);
    await expectOutcome(own, response, '502 gateway-unreachable unknown unknown');
  });

  it('unknown: Countersign fails after something was written', async () => {
    const dying = await startDying(httpResponse('200 OK', '[]'));
    const own = await start({ gateway: dying.url, nonce: failAfter('first', 'second') });
    expect(await own.balance()).toMatchObject({ status: 200 });
    await expectOutcome(own, await own.balance(), '500 internal unknown unknown');
  });

  it('not-sent: Countersign fails after attempts that could not connect, or before the first one', async () => {
    const own = await start({ gateway: closedUrl, nonce: failAfter('first', 'second') });
    const response = await own.transfer();
    await expectOutcome(own, response, '500 internal not-sent not-sent');
    expect(await own.lineOf(response)).toMatchObject({ attempts: 2 });
    const before = gateway.connections();
    const first = await start({ gateway: gateway.url, nonce: failAfter() });
    await expectOutcome(first, await first.transfer(), '500 internal not-sent not-sent');
    expect(gateway.connections()).toBe(before);
  });
});
