import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { everything, tokenCredential } from '../support/config.ts';
import { Processes, type RunningDemo } from '../support/demo.ts';
import { post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { publishedOperations } from '../support/scenario.ts';
import { controlKey } from '../support/simulator.ts';

const starts = harness();
const processes = new Processes();
let demo: RunningDemo;
beforeAll(async () => {
  demo = await processes.startDemo();
}, 60_000);
afterAll(() => processes.clear());

const transfer = (orderId: string) =>
  post(
    `${demo.proxyUrl}/sandbox/gw/api/v4/transfer/1234`,
    `client_orderid=${orderId}&amount=12.50&currency=EUR`,
  );

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

/** Runs the command with this standard input. */
async function query(input: string, ...argv: string[]) {
  const { code, out, err } = await processes.run(['payments', 'query', ...argv], input);
  const lines = out.split('\n').filter((line) => line !== '');
  return { code, out, err, lines };
}

/** Row and decision by order ID, as the last line of each says it. */
async function decided(input: string, ...argv: string[]) {
  const { code, lines, err } = await query(input, '--url', demo.proxyUrl, '--json', ...argv);
  const results = lines.map((line): Record<string, unknown> => JSON.parse(line));
  const rows = results.map(
    ({ orderId, row, decision }) => [orderId, `${String(row)}, ${String(decision)}`] as const,
  );
  return { code, err, rows: Object.fromEntries(rows), results };
}

interface Entry {
  readonly operation: string;
}

/** The operations of the requests that the gateway received. */
async function received(): Promise<string[]> {
  const { entries }: { entries: Entry[] } = JSON.parse(
    await (await fetch(`${demo.gatewayAdminUrl}/journal`)).text(),
  );
  return entries.map(({ operation }) => operation);
}

const reset = () => fetch(`${demo.gatewayAdminUrl}/reset`, { method: 'POST' });

/** Until what is processed for a second is decided. */
const processed = () => setTimeout(1_100);

const all = [
  'order-7',
  'declined',
  'filtered',
  'in-error',
  'ambiguous',
  'unknown',
  'never-made',
  'processing',
  'no-status',
];

describe('countersign payments query', () => {
  it('prints the row of docs/payments.md for each payment, and sends none', async () => {
    await reset();
    for (const order of all) await transfer(order);
    await processed();
    const lines = all.map((order) => lineOf(order)).join('\n');
    expect(await decided(lines)).toMatchObject({
      code: 1,
      rows: {
        'order-7': 'approved, paid',
        declined: 'declined, not-paid',
        filtered: 'declined, not-paid',
        'in-error': 'in error, ask-support',
        ambiguous: 'ambiguous, ask-support',
        unknown: 'unknown, ask-support',
        'never-made': 'not found, query-again',
        processing: 'processing, query-again',
        'no-status': 'no response, query-again',
      },
    });
    const others = (await received()).filter((operation) => operation !== 'order-status');
    expect(others).toEqual(all.map(() => 'transfer'));
  });

  it('after 15 minutes leaves to support what is not decided, with the reason of an order that was not created', async () => {
    const time = new Date(Date.now() - 15 * 60_000).toISOString();
    const late = ['never-made', 'processing', 'no-status', 'order-7'];
    const { code, rows, results } = await decided(late.map((order) => lineOf(order, { time })).join('\n'));
    expect(code).toBe(1);
    expect(rows).toEqual({
      'never-made': 'not found, ask-support',
      processing: 'processing, ask-support',
      'no-status': 'no response, ask-support',
      'order-7': 'approved, paid',
    });
    expect(results[0]).toMatchObject({
      requestId: 'request-never-made',
      detail: 'Order not found, code 9002',
    });
  });

  it('reads the status of an instance as "countersign status" and the page print it, and its log', async () => {
    await reset();
    const own = await processes.startDemo();
    const path = '/sandbox/gw/api/v4/transfer/1234';
    const headers = (
      await post(`${own.proxyUrl}${path}`, 'client_orderid=lost-response&amount=1&currency=EUR')
    ).headers;
    await processed();
    const shown = await processes.run(['status', '--json', '--url', own.adminUrl]);
    const fetched = await (await fetch(`${own.adminUrl}/status.json`)).text();
    const { out: log } = await own.stop();
    const again = await processes.startDemo();
    await post(`${again.proxyUrl}${path}`, 'client_orderid=lost-response&amount=1&currency=EUR');
    await processed();
    for (const input of [shown.out, fetched, log, log.replaceAll(/^/gm, '[pod/countersign-1] ')]) {
      const { code, lines, err } = await query(input, '--url', again.proxyUrl);
      expect({ code, err, lines }).toEqual({
        code: 0,
        err: '',
        lines: [
          expect.stringMatching(/^DECISION +ORDER +LOGIN +TIME +THE QUERY SAYS$/),
          expect.stringMatching(/^paid +lost-response +acme +20\S+Z +approved: done/),
          expect.any(String),
        ],
      });
      const json = await query(input, '--json', '--url', again.proxyUrl);
      expect(JSON.parse(json.out)).toMatchObject({
        requestId: headers['x-request-id'],
        environment: 'sandbox',
      });
    }
  }, 60_000);

  it('a return is not decided by the payment, nor by another return', async () => {
    await reset();
    const { body } = await transfer('order-7');
    const orderid = new URLSearchParams(body.replaceAll('\n', '')).get('gw-order-id') ?? '';
    await processed();
    const both = ['transfer', 'return'].map((operation) => lineOf('order-7', { operation })).join('\n');
    const before = await decided(both);
    expect(before.results).toMatchObject([
      { row: 'approved', decision: 'paid' },
      { row: 'processing', decision: 'query-again', detail: 'the status is not that of the return yet' },
    ]);
    const form = new URLSearchParams({ client_orderid: 'order-7', orderid }).toString();
    expect((await post(`${demo.proxyUrl}/sandbox/gw/api/v2/return/1234`, form)).status).toBe(200);
    await processed();
    expect((await decided(both)).results).toMatchObject([
      { row: 'later stage', decision: 'ask-support', operation: 'transfer' },
      {
        row: 'approved',
        decision: 'ask-support',
        operation: 'return',
        advice: 'the latest return of the order, if it is this one',
      },
    ]);
  });

  it('a payment whose return is declined is not taken for one that is not paid', async () => {
    await reset();
    const { body } = await transfer('order-7');
    const orderid = new URLSearchParams(body.replaceAll('\n', '')).get('gw-order-id') ?? '';
    const form = new URLSearchParams({ client_orderid: 'order-7', orderid, cvv2: '101' }).toString();
    expect((await post(`${demo.proxyUrl}/sandbox/gw/api/v2/return/1234`, form)).status).toBe(200);
    await processed();
    const { code, rows } = await decided(lineOf('order-7', { operation: 'transfer' }));
    expect([code, rows]).toEqual([1, { 'order-7': 'later stage, ask-support' }]);
    // Another attempt to refund is no new payment.
    const { results } = await decided(lineOf('order-7', { operation: 'return' }));
    expect(results).toMatchObject([
      {
        row: 'declined',
        decision: 'ask-support',
        advice: 'the latest return of the order, if it is this one',
      },
    ]);
  });

  it('--watch queries until each payment is decided, and prints what changed', async () => {
    await reset();
    await Promise.all(['processing-at-first', 'found-later', 'declined'].map(transfer));
    const lines = ['processing-at-first', 'found-later', 'declined'].map((order) => lineOf(order)).join('\n');
    const { code, rows, results } = await decided(lines, '--watch');
    expect(code).toBe(0);
    expect(rows).toEqual({
      'processing-at-first': 'approved, paid',
      'found-later': 'approved, paid',
      declined: 'declined, not-paid',
    });
    const first = results.slice(0, 3).map(({ row }) => row);
    expect(first.slice(0, 2)).toEqual(['processing', 'not found']);
    expect(results.length).toBeLessThanOrEqual(6);
  }, 30_000);

  it.each([
    ['with the path of a payment', { statusPath: '/sandbox/gw/api/v4/transfer/1234' }],
    ['with a path at another host', { statusPath: '//127.0.0.1:9/gw/api/v4/status/1234' }],
    ['without a path', { statusPath: undefined }],
    ['with an order ID that is redacted', { orderId: '[redacted: looks like a card number]' }],
    ['with an order ID that was not printable', { orderId: '????-7' }],
    ['without an order ID', { orderId: undefined }],
    ['with a login that is redacted', { login: '[redacted: looks like a card number]' }],
  ])('sends nothing for a line %s', async (_what, fields) => {
    await reset();
    const { code, results } = await decided(lineOf('order-7', fields));
    expect(code).toBe(1);
    expect(results).toMatchObject([
      { row: 'not queried', decision: 'ask-support', requestId: 'request-order-7' },
    ]);
    expect(await received()).toEqual([]);
  });

  it('prints what a line or the gateway made up as plain ASCII', async () => {
    const line = lineOf('order-7', { login: '\u001b[2J', orderId: '\u009b31m', requestId: '\u202e' });
    for (const argv of [[], ['--json']])
      expect((await query(line, '--url', demo.proxyUrl, ...argv)).out).toMatch(/^[ -~\n]+$/);
  });

  it.each([
    ['nothing', ''],
    ['other text', 'hello\n{"a":1}\n{\n'],
  ])('says what it needs if the input is %s', async (_what, input) => {
    const { code, out, err } = await query(input);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain('has neither a status nor log lines of Countersign');
  });

  it('queries an order once that was posted twice, from its first request', async () => {
    const again = { requestId: 'request-again', time: new Date(Date.now() + 1_000).toISOString() };
    const { results } = await decided([lineOf('order-7', again), lineOf('order-7')].join('\n'));
    expect(results).toMatchObject([{ requestId: 'request-order-7' }]);
    const redacted = { orderId: '[redacted: looks like a card number]' };
    const two = [lineOf('a', redacted), lineOf('b', redacted)].join('\n');
    expect((await decided(two)).results).toMatchObject([
      { requestId: 'request-a' },
      { requestId: 'request-b' },
    ]);
  });

  it('reads the lines of a log between what others wrote', async () => {
    const between = ['{', '  "of": "another container",', lineOf('order-8'), '}', '{', lineOf('order-9')];
    const { results } = await decided([lineOf('order-7'), ...between].join('\n'));
    expect(results.map(({ orderId }) => orderId)).toEqual(['order-7', 'order-8', 'order-9']);
  });

  it('says that there is no payment of unknown outcome', async () => {
    expect(await query('{"msg":"started"}')).toMatchObject({
      code: 0,
      out: '',
      err: 'No payment of unknown outcome.\n',
    });
  });

  it.each([
    [['--url', 'http://user:password@127.0.0.1:8080'], '--url must be http://HOST:PORT'],
    [['--url', 'http://127.0.0.1:8080/sandbox'], '--url must be http://HOST:PORT'],
    [['--token-file', '-'], '--token-file must be a file: standard input has the payments'],
    [['--cert-file', 'x'], '--cert-file and --key-file are only valid together'],
  ])('rejects %j', async (argv, text) => {
    const { code, err } = await query('', ...argv);
    expect(code).toBe(2);
    expect(err).toContain(text);
    expect(err).not.toContain('password');
  });
});

describe('countersign payments query as a caller', () => {
  const token = 'a-token-of-the-caller-billing';
  const billing = { name: 'billing', credentials: [tokenCredential(token)], allow: [everything] };

  it('queries with its token, and without one says that nothing was queried, however late', async () => {
    const edge = await starts.edge({ config: { callers: [billing] } });
    edge.gateway.respond = (response) =>
      response
        .setHeader('Content-Type', 'text/html')
        .end('status=approved\n&merchant-order-id=order-7\n&gw-order-id=1\n');
    const file = join(processes.folder, 'token');
    writeFileSync(file, token);
    const line = lineOf('order-7', { time: '2026-01-01T00:00:00.000Z' });
    const known = await query(line, '--url', edge.url, '--token-file', file, '--json');
    expect([known.code, JSON.parse(known.out)]).toMatchObject([0, { row: 'approved', decision: 'paid' }]);
    const stranger = await query(line, '--url', edge.url, '--json');
    expect([stranger.code, JSON.parse(stranger.out)]).toMatchObject([
      1,
      {
        row: 'not queried',
        decision: 'query-again',
        advice: expect.stringMatching(/^Countersign did not send the query: status 401, caller-unknown: \w/),
      },
    ]);
    expect(edge.gateway.requests).toHaveLength(1);
  });

  it('queries a payment of a merchant who has a control key alone by that key', async () => {
    const edge = await starts.edge({
      config: { operations: publishedOperations },
      keys: { acme: { controlKey } },
    });
    edge.gateway.respond = (response) => void response.destroy();
    const form = 'client_orderid=order-7&amount=1&currency=EUR&email=a%40shop.example';
    await edge.post('/sandbox/gw/api/v2/sale/1234', form);
    edge.gateway.respond = (response) =>
      response.setHeader('Content-Type', 'text/html').end('status=approved\n&merchant-order-id=order-7\n');
    const status = JSON.stringify(await edge.instanceStatus());
    const { code, out } = await query(status, '--url', edge.url, '--json');
    expect([code, JSON.parse(out)]).toMatchObject([0, { row: 'approved', decision: 'paid' }]);
    const sent = new URLSearchParams(edge.gateway.requests.at(-1)?.body.toString());
    const control = createHash('sha1').update(`acmeorder-7${controlKey}`).digest('hex');
    expect(Object.fromEntries(sent)).toEqual({ login: 'acme', client_orderid: 'order-7', control });
  });

  it('takes nothing from a response about another order, and redacts what the gateway says', async () => {
    const edge = await starts.edge();
    const respond = (body: string): void => {
      edge.gateway.respond = (response) => response.setHeader('Content-Type', 'text/html').end(body);
    };
    respond('status=approved\n&merchant-order-id=order-8\n&gw-order-id=1\n');
    const crossed = await query(lineOf('order-7'), '--url', edge.url, '--json');
    expect(JSON.parse(crossed.out)).toMatchObject({
      row: 'no response',
      decision: 'query-again',
      detail: 'it is about another order',
    });
    respond('status=error\n&merchant-order-id=order-7\n&error-message=card+4000007711223344+is+bad\n');
    const failed = await query(lineOf('order-7'), '--url', edge.url, '--json');
    expect(JSON.parse(failed.out)).toMatchObject({ row: 'not found' });
    expect(failed.out).not.toContain('4000007711223344');
  });

  it('says that there is no Countersign', async () => {
    const gateway = await starts.recordingGateway();
    const other = await query(lineOf('order-7'), '--url', gateway.url, '--json');
    expect([other.code, JSON.parse(other.out)]).toMatchObject([
      1,
      { row: 'not queried', advice: 'status 200 is not from a proxy port of Countersign: check --url' },
    ]);
    await gateway.close();
    const none = await query(lineOf('order-7'), '--url', gateway.url, '--json');
    expect(JSON.parse(none.out)).toMatchObject({
      row: 'not queried',
      advice: expect.stringContaining('no response from Countersign: connection refused'),
    });
  });
});
