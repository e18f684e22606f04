import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { run } from '../support/cli.ts';
import { everything, tokenCredential } from '../support/config.ts';
import { Processes } from '../support/demo.ts';
import { type HttpResponse, paths } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { publishedOperations } from '../support/scenario.ts';
import { type ProxyOptions, type TestProxy, testPrivateKey } from '../support/service.ts';
import { controlKey, fieldsOf, type TestSimulator } from '../support/simulator.ts';

const starts = harness(afterAll);
let simulator: TestSimulator['simulator'];
let proxy: TestProxy;
let behind: ProxyOptions;
let edge: Edge;

beforeAll(async () => {
  const config = { operations: publishedOperations };
  const gateway = await starts.simulator({ clock: Date.now });
  simulator = gateway.simulator;
  behind = { gateway: gateway.url, keys: { acme: { controlKey, privateKey: testPrivateKey } }, config };
  proxy = await starts.proxy(behind);
  edge = await starts.edge({ config, keys: { acme: { controlKey } } });
});
beforeEach(() => {
  simulator.reset();
  edge.gateway.requests.length = 0;
});

/** Until what is processed for a second is decided. */
const pass = (seconds = 1): void => {
  simulator.clock.offsetSeconds += seconds;
};
const transfer = (orderId: string): Promise<HttpResponse> =>
  proxy.post(paths.transfer, `client_orderid=${orderId}&amount=12.50&currency=EUR`);
const refund = async (orderId: string, more: object = {}): Promise<void> => {
  const { 'gw-order-id': orderid } = fieldsOf((await transfer(orderId)).body);
  pass();
  const form = String(new URLSearchParams({ client_orderid: orderId, orderid: orderid ?? '', ...more }));
  expect((await proxy.post('/sandbox/gw/api/v2/return/1234', form)).status).toBe(200);
  pass();
};

/** Those of the requests that the gateway received. */
const received = () => simulator.journal.entries().map(({ operation }) => operation);

/** A log line of a payment of unknown outcome. */
const lineOf = (orderId: string, fields: object = {}): string =>
  JSON.stringify({
    time: new Date().toISOString(),
    requestId: `request-${orderId}`,
    environment: 'sandbox',
    login: 'acme',
    orderId,
    statusPath: '/sandbox/gw/api/v4/status/1234',
    outcome: 'unknown',
    msg: 'request completed',
    ...fields,
  });

const query = (input: string, ...argv: string[]) => run(['payments', 'query', ...argv], input);

/** What is decided of each payment, in a line, as the last one about it says; and all that is printed. */
async function decide(lines: readonly string[], { url = proxy.url, argv = [] as readonly string[] } = {}) {
  const { code, out } = await query(lines.join('\n'), '--url', url, '--json', ...argv);
  const results = out.split('\n').map((line): Record<string, unknown> => JSON.parse(line));
  const decided = results.map(
    ({ requestId, row, decision }) => [requestId, `${String(row)}, ${String(decision)}`] as const,
  );
  return { code, results, decided: Object.fromEntries(decided) };
}

const rows = [
  ['order-7', 'approved, paid', 'approved, paid'],
  ['declined', 'declined, not-paid', 'declined, not-paid'],
  ['filtered', 'declined, not-paid', 'declined, not-paid'],
  ['in-error', 'in error, ask-support', 'in error, ask-support'],
  ['ambiguous', 'ambiguous, ask-support', 'ambiguous, ask-support'],
  ['unknown', 'unknown, ask-support', 'unknown, ask-support'],
  ['never-made', 'not found, query-again', 'not found, ask-support'],
  ['processing', 'processing, query-again', 'processing, ask-support'],
  ['no-status', 'no response, query-again', 'no response, ask-support'],
] as const;
const orders = rows.map(([order]) => order);

describe('countersign payments query', () => {
  it('prints the row of docs/payments.md for each payment, another one after 15 minutes, and sends none', async () => {
    for (const order of orders) await transfer(order);
    pass();
    const time = new Date(Date.now() - 15 * 60_000).toISOString();
    const soon = await decide(orders.map((order) => lineOf(order)));
    const late = await decide(orders.map((order) => lineOf(order, { time })));
    expect([soon.code, late.code]).toEqual([1, 1]);
    for (const [order, now, later] of rows)
      expect([soon, late].map(({ decided }) => decided[`request-${order}`])).toEqual([now, later]);
    const { out } = await query(orders.map((order) => lineOf(order)).join('\n'), '--url', proxy.url);
    const printed = [...out.matchAll(/^(\w+ \w+|paid) /gm)].map(([, decision]) => decision);
    expect([...new Set(printed)]).toEqual(['ask support', 'query again', 'not paid', 'paid']);
    expect(late.results.find(({ orderId }) => orderId === 'never-made')).toMatchObject({
      requestId: 'request-never-made',
      detail: 'Order not found, code 9002',
    });
    expect(received().filter((operation) => operation !== 'order-status')).toEqual(
      orders.map(() => 'transfer'),
    );
  });

  it('reads the status of an instance as "countersign status" and the page print it, and its log', async () => {
    const { adminUrl, post, requestLines } = await starts.proxy(behind);
    const { headers } = await post(paths.transfer, 'client_orderid=lost-response&amount=1&currency=EUR');
    pass();
    const shown = await run(['status', '--json', '--url', adminUrl]);
    const fetched = await (await fetch(`${adminUrl}/status.json`)).text();
    const [line] = await requestLines();
    const log = JSON.stringify(line);
    for (const input of [shown.out, fetched, log, `[pod/countersign-1] ${log}`]) {
      const { code, out, err } = await query(input, '--url', proxy.url);
      expect([code, err]).toEqual([0, '']);
      expect(out.split('\n').slice(0, 2)).toEqual([
        expect.stringMatching(/^DECISION +ORDER +LOGIN +TIME +THE QUERY SAYS$/),
        expect.stringMatching(/^paid +lost-response +acme +20\S+Z +approved: done/),
      ]);
      const { results } = await decide([input]);
      expect(results).toMatchObject([{ requestId: headers['x-request-id'], environment: 'sandbox' }]);
    }
    const processes = new Processes();
    starts.atEnd(() => processes.clear());
    const piped = await processes.run(['payments', 'query', '--url', proxy.url], shown.out);
    expect(piped).toMatchObject({ code: 0, err: '', out: expect.stringMatching(/^paid +lost-response /m) });
  });

  it('a return is not decided by the payment, nor by another return; nor the payment by a return', async () => {
    const both = ['transfer', 'return'].map((operation) => lineOf('order-7', { operation }));
    await transfer('order-7');
    pass();
    expect((await decide(both)).results).toMatchObject([
      { row: 'approved', decision: 'paid' },
      { row: 'processing', decision: 'query-again', detail: 'the status is not that of the return yet' },
    ]);
    for (const [row, decision, more] of [
      ['refunded', 'refunded', {}],
      ['not refunded', 'not-refunded', { cvv2: '101' }],
    ] as const) {
      simulator.reset();
      await refund('order-7', more);
      const { code, results } = await decide(both);
      const advice = 'the latest return of the order, if it is this one';
      expect(code).toBe(1);
      expect(results).toMatchObject([
        { row, decision, operation: 'transfer' },
        { row, decision: 'ask-support', operation: 'return', advice },
      ]);
    }
  });

  it('a capture is not decided by what was before it, nor by a refund since', async () => {
    const lines = [lineOf('order-7', { operation: 'capture' })];
    const { 'gw-order-id': orderid = '' } = fieldsOf((await transfer('order-7')).body);
    pass();
    const notYet = {
      row: 'processing',
      decision: 'query-again',
      detail: 'the status is not that of the capture yet',
    };
    const advice = 'the latest capture of the order, if it is this one';
    expect((await decide(lines)).results).toMatchObject([notYet]);
    for (const [command, result] of [
      ['capture', { row: 'approved', decision: 'ask-support', advice }],
      ['return', notYet],
    ] as const) {
      const form = String(new URLSearchParams({ client_orderid: 'order-7', orderid }));
      expect((await proxy.post(`/sandbox/gw/api/v2/${command}/1234`, form)).status).toBe(200);
      pass();
      expect((await decide(lines)).results).toMatchObject([result]);
    }
  });

  it('queries nothing for a line that does not say enough, or that somebody made up', async () => {
    const redacted = '[redacted: looks like a card number]';
    const lines = [
      { statusPath: '/sandbox/gw/api/v4/transfer/1234' },
      { statusPath: '//127.0.0.1:9/gw/api/v4/status/1234' },
      { statusPath: undefined },
      { orderId: redacted },
      { orderId: '????-7' },
      { orderId: undefined },
      { login: redacted },
    ].map((fields, index) => lineOf('order-7', { requestId: `request-${index}`, ...fields }));
    const { code, results } = await decide([...lines, lineOf('a', { orderId: redacted })]);
    expect(code).toBe(1);
    expect(results.map(({ requestId, row, decision }) => [requestId, row, decision])).toEqual(
      ['0', '1', '2', '3', '4', '5', '6', 'a'].map((id) => [`request-${id}`, 'not queried', 'ask-support']),
    );
    expect(received()).toEqual([]);
  });

  it('prints what a line or the gateway made up as plain ASCII', async () => {
    const line = lineOf('order-7', { login: '\u001b[2J', orderId: '\u009b31m', requestId: '\u202e' });
    for (const argv of [[], ['--json']])
      expect((await query(line, '--url', proxy.url, ...argv)).out).toMatch(/^[ -~\n]+$/);
  });

  it('queries an order once that was posted twice, from its first request, between what others wrote', async () => {
    const again = { requestId: 'request-again', time: new Date(Date.now() + 1_000).toISOString() };
    const between = ['{', '  "of": "another container",', lineOf('order-8'), '}', '{', lineOf('order-9')];
    const { results } = await decide([lineOf('order-7', again), lineOf('order-7'), ...between]);
    expect(results.map(({ requestId }) => requestId)).toEqual(
      ['7', '8', '9'].map((id) => `request-order-${id}`),
    );
  });

  it.each([
    ['hello\n{"a":1}\n{\n', [], 2, 'has neither a status nor log lines of Countersign'],
    ['{"msg":"started"}', [], 0, /^No payment of unknown outcome\.$/],
    ['', ['--url', 'http://user:password@127.0.0.1:8080'], 2, '--url must be http://HOST:PORT'],
    ['', ['--token-file', '-'], 2, '--token-file must be a file: standard input has the payments'],
    ['', ['--cert-file', 'x'], 2, '--cert-file and --key-file are only valid together'],
  ] as const)(
    'of the input %j with %j says what is wrong, or that there is nothing',
    async (input, argv, exit, text) => {
      const { code, out, err } = await query(input, ...argv);
      expect([code, out]).toEqual([exit, '']);
      expect(err).toMatch(text);
      expect(err).not.toContain('password');
    },
  );
});

describe('countersign payments query as a caller', () => {
  const respond = (body: string): void => {
    edge.gateway.respond = (response) => response.setHeader('Content-Type', 'text/html').end(body);
  };
  const approved = 'status=approved\n&merchant-order-id=order-7\n';

  it('queries with its token within its limit, and without one says that nothing was queried, however late', async () => {
    const token = 'a-token-of-the-caller-billing';
    const credentials = [tokenCredential(token)];
    const callers = [{ name: 'billing', maxInFlight: 1, credentials, allow: [everything] }];
    const { url } = await starts.proxy({ gateway: edge.gateway.url, config: { callers } });
    respond(approved);
    const line = lineOf('order-7', { time: '2026-01-01T00:00:00.000Z' });
    const file = starts.folder().file('token', token);
    const lines = [line, lineOf('order-7', { operation: 'transfer' })];
    const known = await decide(lines, { url, argv: ['--token-file', file] });
    expect(known).toMatchObject({ code: 0, results: [{ decision: 'paid' }, { decision: 'paid' }] });
    const advice = /^Countersign did not send the query: status 401, caller-unknown: \w/;
    const results = [{ row: 'not queried', decision: 'query-again', advice: expect.stringMatching(advice) }];
    expect(await decide([line], { url })).toMatchObject({ code: 1, results });
    expect(edge.gateway.requests).toHaveLength(2);
  });

  it('queries a payment of a merchant who has a control key alone by that key', async () => {
    edge.gateway.respond = (response) => void response.destroy();
    const form = 'client_orderid=order-7&amount=1&currency=EUR&email=a%40shop.example';
    await edge.post('/sandbox/gw/api/v2/sale/1234', form);
    respond(approved);
    const status = JSON.stringify(await edge.instanceStatus());
    const { code, results } = await decide([status], edge);
    expect([code, results]).toMatchObject([0, [{ row: 'approved', decision: 'paid' }]]);
    const sent = new URLSearchParams(edge.gateway.requests.at(-1)?.body.toString());
    const control = createHash('sha1').update(`acmeorder-7${controlKey}`).digest('hex');
    expect(Object.fromEntries(sent)).toEqual({ login: 'acme', client_orderid: 'order-7', control });
  });

  it('takes nothing from a response about another order, and redacts what the gateway says', async () => {
    const line = lineOf('order-7', { statusPath: '/sandbox/gw/api/v2/status/1234' });
    respond('status=approved\n&merchant-order-id=order-8\n&gw-order-id=1\n');
    const detail = 'it is about another order';
    expect((await decide([line], edge)).results).toMatchObject([
      { row: 'no response', decision: 'query-again', detail },
    ]);
    respond('status=error\n&merchant-order-id=order-7\n&error-message=card+4000007711223344+is+bad\n');
    expect((await decide([line], edge)).results).toMatchObject([
      { row: 'not found', detail: 'xxxx xxxxxxxxxxxxxxxx xx xxx' },
    ]);
  });

  it('says that there is no Countersign', async () => {
    const gateway = await starts.recordingGateway();
    const results = async () => (await decide([lineOf('order-7')], gateway)).results;
    expect(await results()).toMatchObject([
      { row: 'not queried', advice: 'status 200 is not from a proxy port of Countersign: check --url' },
    ]);
    await gateway.close();
    const advice = expect.stringContaining('no response from Countersign: connection refused');
    expect(await results()).toMatchObject([{ row: 'not queried', advice }]);
  });
});
