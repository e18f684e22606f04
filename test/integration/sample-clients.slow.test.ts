import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { Processes, type RunningDemo } from '../support/demo.ts';
import { post } from '../support/forwarding.ts';
import { type Listening, listen } from '../support/listening.ts';
import { describeWhere } from '../support/requires.ts';
import { isInstalled, languages, type Shop, Shops } from '../support/sample-shop.ts';
import { root } from '../support/sources.ts';
import { until } from '../support/until.ts';

/** What a client says about each `client_orderid` of docs/payments.md. */
const rows: Readonly<Record<string, string>> = {
  rejected: 'fix: rejected',
  'order-7': 'paid: approved',
  'server-error': 'paid: approved',
  'lost-response': 'paid: approved',
  declined: 'not-paid: declined',
  filtered: 'not-paid: declined',
  'in-error': 'ask-support: in error',
  ambiguous: 'ask-support: ambiguous',
  unknown: 'ask-support: unknown',
  'found-later': 'paid: approved',
  'never-made': 'ask-support: not found',
  'processing-at-first': 'paid: approved',
  'chain-declined': 'paid: approved',
  processing: 'ask-support: processing',
  'no-status-at-first': 'paid: approved',
  'no-status': 'ask-support: no response',
};

it('docs/payments.md has every row that the clients are run through', () => {
  const page = readFileSync(join(root, 'docs/payments.md'), 'utf8');
  const tables = page.split('\n\n').filter((block) => /^\|.*\| in the demo \|\n/.test(block));
  const cells = [...tables.join('\n').matchAll(/^\|.*\|(.*)\|$/gm)].map(([, cell = '']) => cell);
  const orders = cells.flatMap((cell) => [...cell.matchAll(/`([a-z0-9-]+)`/g)].map(([, id]) => id));
  expect(new Set(orders)).toEqual(new Set(Object.keys(rows)));
});

type Respond = (response: ServerResponse) => void;

const own =
  (status: number, reason: string, outcome: string, headers = {}): Respond =>
  (response) => {
    const type = { 'Content-Type': 'application/problem+json' };
    response.writeHead(status, { ...type, 'Countersign-Outcome': outcome, ...headers });
    const detail = status === 400 ? 'Wrong: "a\\b".' : undefined;
    response.end(JSON.stringify({ status, reason, outcome, detail }));
  };

const ofGateway =
  (status: number, fields: Readonly<Record<string, string | string[]>>, headers = {}): Respond =>
  (response) => {
    const isJson = response.req.headers.accept === 'application/json';
    response.writeHead(status, {
      'Content-Type': isJson ? 'application/json' : 'text/html',
      'Countersign-Outcome': 'answered',
      ...headers,
    });
    const pairs = Object.entries(fields).flatMap(([name, values]) =>
      [values].flat().map((value) => `${name}=${encodeURIComponent(value)}\n`),
    );
    response.end(isJson ? JSON.stringify(fields) : pairs.join('&'));
  };

const page: Respond = (response) => {
  response.writeHead(200, { 'Content-Type': 'text/html' }).end('<html>Try again</html>');
};
const statusOf = (status: string, headers = {}, fields = {}): Respond =>
  ofGateway(200, { status, 'pay-order-id': '7', amount: '12.5', currency: 'EUR', ...fields }, headers);
const started = ofGateway(200, { type: 'async-response', 'pay-order-id': '7', 'serial-number': 'sn' });
const crossed = { 'Countersign-Order-Mismatch': 'order-id' };

/** Responses to a payment that the demo does not show, and that say nothing of it: a query says that it is approved. */
const unclear: Readonly<Record<string, Respond>> = {
  truncated(response) {
    response.writeHead(200, { 'Content-Length': 100, 'Countersign-Outcome': 'not-sent' });
    response.write('type=', () => response.socket?.destroySoon());
  },
  garbage: (response) => response.socket?.end('this is not HTTP\r\n\r\n'),
  redirect: (response) => response.writeHead(307, { Location: response.req.url }).end(),
  'no-header': page,
  crossed: ofGateway(200, { type: 'async-response' }, crossed),
  // After it fetch() of Node.js sends a request again.
  misdirected: ofGateway(421, {}),
  'gateway-429': ofGateway(429, {}),
  nested(response) {
    response.writeHead(200, { 'Content-Type': 'application/json', 'Countersign-Outcome': 'answered' });
    response.end('['.repeat(100_000));
  },
  'long-wait': ofGateway(503, {}, { 'Retry-After': '9'.repeat(5_000) }),
  duplicate: own(409, 'duplicate-payment', 'unknown'),
  'not-made': ofGateway(200, { type: 'error', 'serial-number': 'sn', 'error-message': 'Failed' }),
  'two-numbers': ofGateway(200, { 'serial-number': ['1', '2'], 'pay-order-id': ['7', '8'] }),
  'not-created': ofGateway(200, { type: 'validation-error', 'error-message': 'Duplicate order ID' }),
};
const inOneSecond = { 'Retry-After': '1' };
/** Others, and what the shop decides. */
const toPayments: Readonly<Record<string, readonly [Respond, decision: string]>> = {
  ...Object.fromEntries(Object.entries(unclear).map(([id, one]) => [id, [one, 'paid: approved 7'] as const])),
  'gateway-401': [ofGateway(401, {}), 'fix: rejected'],
  reused: [own(422, 'order-id-reused', 'not-sent'), 'ask-support: order ID reused order-id-reused'],
  overloaded: [own(503, 'overloaded', 'not-sent', inOneSecond), 'send-again: not sent overloaded'],
  limited: [own(429, 'caller-limit', 'not-sent', inOneSecond), 'send-again: not sent caller-limit'],
  invalid: [own(400, 'parameter-invalid', 'not-sent'), 'fix: not sent parameter-invalid Wrong: "a\\b".'],
};
const ofA = (stage: string | string[]) => ({ 'transaction-type': stage });
const ofAnotherRefund = { ...ofA('refund'), 'by-request-sn': 'other' };
/** The first response to a query, and what the shop decides. The next one says that it is declined. */
const toQueries: Readonly<Record<string, readonly [Respond, decision: string]>> = {
  page: [page, 'not-paid: declined 7'],
  'crossed-status': [statusOf('approved', crossed), 'not-paid: declined 7'],
  'two-statuses': [ofGateway(200, { status: ['approved', 'declined'] }), 'not-paid: declined 7'],
  'two-stages': [statusOf('approved', {}, ofA(['sale', 'chargeback'])), 'not-paid: declined 7'],
  busy: [own(503, 'overloaded', 'not-sent', { 'Retry-After': '3' }), 'not-paid: declined 7'],
  'declined-refund': [statusOf('declined', {}, ofA('reversal')), 'not-refunded: not refunded 7'],
  'another-refund': [statusOf('approved', {}, ofAnotherRefund), 'refunded: refunded 7'],
  'charged-back': [statusOf('approved', {}, ofA('chargeback')), 'ask-support: later stage 7'],
  'another-amount': [statusOf('approved', {}, { amount: '1.25' }), 'ask-support: another amount 7'],
  'another-currency': [statusOf('approved', {}, { currency: 'USD' }), 'ask-support: another amount 7'],
  'no-amount': [ofGateway(200, { status: 'approved' }), 'ask-support: another amount'],
  'two-orders': [statusOf('error', {}, { 'error-code': '124' }), 'ask-support: ambiguous 7'],
  'its-product': [statusOf('error'), 'ask-support: in error 7'],
};
const verdict =
  (result: string): Respond =>
  (response) => {
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ result }));
  };
/** Others are verified. */
const toCallbacks: Readonly<Record<string, Respond>> = {
  'key-missing': verdict('key-missing'),
  unavailable: own(503, 'key-source-unavailable', 'not-sent'),
  page,
};

/** In place of Countersign. */
class StrangeCountersign {
  /** Of each request. */
  readonly requests: { path: string; body: string; id: string; at: number }[] = [];
  readonly server = createServer((request, response) => void this.#respond(request, response));

  /** The orders of payments, one for each time. */
  sent(): string[] {
    return this.requests.flatMap(({ path, id }) => (path.includes('/transfer/') ? [id] : [])).toSorted();
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url: path = '' } = request;
    const body = await text(request);
    const id = new URLSearchParams(body).get('client_orderid') ?? '';
    const isQuery = path.startsWith('/live/pay/api/v4/status/');
    const isQueried =
      id in toQueries && this.requests.some((other) => other.id === id && other.path === path);
    this.requests.push({ path, body, id, at: performance.now() });
    const [payment = started] = toPayments[id] ?? [];
    const [query = statusOf('approved')] = toQueries[id] ?? [];
    const callback = toCallbacks[id] ?? verdict('verified');
    if (path.startsWith('/live/pay/verify-callback/')) callback(response);
    else if (isQuery) (isQueried ? statusOf('declined') : query)(response);
    else payment(response);
  }
}

const processes = new Processes();
const strange = new StrangeCountersign();
let demo: RunningDemo;
let api: string;
let listening: Listening;
let controlKey: string;

beforeAll(async () => {
  demo = await processes.startDemo();
  listening = await listen(strange.server);
  api = `${demo.proxyUrl}/sandbox/gw`;
  const { keyDirectory }: { keyDirectory: string } = JSON.parse(readFileSync(demo.readyFile, 'utf8'));
  controlKey = readFileSync(join(keyDirectory, 'sandbox/acme/control_key'), 'utf8');
}, 60_000);
afterAll(async () => {
  processes.clear();
  await listening.close();
});

/** A callback as the gateway makes it: docs/gateway-interface.md section 6. */
function callbackOf(status: string, orderId: string, id: string): string {
  const control = createHash('sha1').update(`${status}${orderId}${id}${controlKey}`).digest('hex');
  return `status=${status}&orderid=${orderId}&client_orderid=${id}&control=${control}`;
}

for (const [name, language] of Object.entries(languages)) {
  const describeLanguage = describeWhere(isInstalled(language), `${name} is not installed`);
  describeLanguage(`docs/examples/client/${name}`, () => {
    let shops: Shops;
    beforeAll(() => {
      shops = new Shops(name, language);
    }, 120_000);
    beforeEach(async () => {
      await post(`${demo.gatewayAdminUrl}/reset`, '', { 'Content-Type': 'application/json' });
      strange.requests.length = 0;
    });
    afterAll(() => shops.clear());

    it('decides each row of docs/payments.md, and sends each payment once', async () => {
      // In place of 15 minutes; more than the seconds that the orders take.
      const shop = await shops.start(api, 6);
      const decided = await decide(shop, Object.keys(rows));
      const expected = Object.entries(rows).map(
        ([id, decision]) => [id, expect.stringMatching(new RegExp(`^${decision}( |$)`))] as const,
      );
      expect(decided).toEqual(Object.fromEntries(expected));
      expect((await idsAt('transfer')).toSorted()).toEqual(Object.keys(rows).toSorted());
    }, 120_000);

    it('knows that nothing was sent without a connection', async () => {
      for (const nowhere of ['http://127.0.0.1:1/sandbox/gw', 'http://countersign.invalid/sandbox/gw'])
        expect(await pay(await shops.start(nowhere, 600), 'order-8')).toMatch(/^send-again: not sent /);
    }, 120_000);

    it('pays, has the callback verified, queries, and refunds one at a time', async () => {
      const shop = await shops.start(api, 30);
      const [, orderid = ''] = /^paid: approved (\d+)$/.exec(await pay(shop, 'order-1')) ?? [];
      await until(() => shop.printed.includes('verified: "order-1" is paid: approved'), 'the callback');
      const refund = { client_orderid: 'order-1', orderid, amount: '0.94', currency: 'EUR' };
      expect(await shop.post('/refund', refund)).toBe(`refunded: refunded ${orderid}`);
      expect(await idsAt('return')).toEqual(['order-1']);
      // Its callback, and the one of the payment again.
      const refunded = 'verified: "order-1" is refunded: refunded';
      await until(() => shop.printed.includes(refunded), 'the callback of the refund');
      await get(`${shop.url}/callback?${callbackOf('approved', orderid, 'order-1')}`);
      await until(() => shop.printed.length === 4);
      expect(shop.printed.filter((line) => line === 'settled: "order-1" is paid')).toHaveLength(1);
      const again = await shop.post('/refund', { ...refund, cvv2: '101' });
      expect(again).toMatch(new RegExp(`^not-refunded: not refunded ${orderid} `));

      // One whose response is lost goes to a person, and no other one is sent meanwhile.
      await addFault({ operation: 'return', fault: 'reset' });
      expect(await shop.post('/refund', refund)).toMatch(/^ask-support: may be processed gateway-reset/);
      expect(await shop.post('/refund', refund)).toMatch(/^ask-support: a refund is not decided/);
      expect(await idsAt('return')).toHaveLength(3);
      const queries = (await journalOf('order-status')).filter((of) => of['client_orderid'] === 'order-1');
      expect(queries.every((of) => 'orderid' in of === 'by-request-sn' in of)).toBe(true);
    }, 120_000);

    it('acts on the status, not on a verified callback; ignores a forged one', async () => {
      const shop = await shops.start(api, 0);
      const callback = async (query: string) => (await get(`${shop.url}/callback?${query}`)).status;

      // A redirect. An order that was approved once is declined now.
      const redirect = callbackOf('approved', '900002', 'invoice-2');
      expect((await post(`${shop.url}/callback`, redirect)).status).toBe(200);
      expect(await callback(callbackOf('declined', '900001', 'invoice-1'))).toBe(200);
      const genuine = callbackOf('declined', '900003', 'invoice-3');
      expect(await callback(genuine.replace('declined', 'approved'))).toBe(403);
      expect(await callback('')).toBe(400);
      const queried = await idsAt('order-status');
      // A shop of another test may still get its callbacks.
      expect(queried.filter((id) => id.startsWith('invoice'))).toEqual(['invoice-2', 'invoice-1']);
      await until(() => shop.printed.length === 4);
      expect(shop.printed).toEqual([
        'verified: "invoice-2" is not-paid: declined',
        // The shop has no amount of it.
        'verified: "invoice-1" is ask-support: another amount',
        'not-verified',
        'invalid',
      ]);
    }, 120_000);

    it('queries whatever it does not understand, and takes nothing from it', async () => {
      const shop = await shops.start(`http://127.0.0.1:${listening.port}/live/pay/`, 30);
      const cases = { ...toPayments, ...toQueries };
      const expected = Object.entries(cases).map(([id, [, decision]]) => [id, decision] as const);
      expect(await decide(shop, Object.keys(cases))).toEqual(Object.fromEntries(expected));
      expect(strange.sent()).toEqual(Object.keys(cases).toSorted());
      // At once why there is no order.
      const notMade = () => shop.printed.filter((line) => /Failed|"not-made"/.test(line));
      await until(() => notMade().length === 2);
      expect(notMade()).toEqual(['"Failed"', 'settled: "not-made" is paid']);
      const requests = strange.requests.filter(({ id }) => id === 'busy');
      const [, first = 0, second = 0] = requests.map(({ at }) => at);
      expect(second - first).toBeGreaterThan(2_900);
    }, 120_000);

    it('sends what is stored again only if it was not processed, also after a request that broke off', async () => {
      const shop = await shops.start(`http://127.0.0.1:${listening.port}/live/pay`, 30);
      const broken = connect(Number(new URL(shop.url).port), '127.0.0.1').resume();
      broken.end('POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 9\r\n\r\nx');
      await once(broken, 'close');
      await decide(shop, ['another-amount', 'gateway-401', 'limited', 'reused']);
      for (const id of ['reused', 'gateway-401']) await get(`${shop.url}/callback?client_orderid=${id}`);
      const other = { client_orderid: 'another-amount', amount: '1.25', currency: 'EUR' };
      const reused = 'ask-support: order ID reused';
      expect(await shop.post('/pay', other)).toBe(reused);
      const again = ['reused', 'gateway-401', 'limited', 'a', 'a'].map((id) => pay(shop, id));
      const [limited, paid] = ['send-again: not sent caller-limit', 'paid: approved 7'];
      expect(await Promise.all(again)).toEqual([reused, paid, limited, paid, paid]);
      expect(strange.sent()).toEqual(['a', 'another-amount', 'gateway-401', 'limited', 'limited', 'reused']);
      await until(() => shop.printed.length === 4);
      expect(shop.printed.toSorted()).toEqual([
        'settled: "a" is paid',
        'settled: "gateway-401" is paid',
        'verified: "gateway-401" is paid: approved',
        'verified: "reused" is ask-support: another amount',
      ]);
    }, 120_000);

    it('takes no status of a payment for that of a refund', async () => {
      const shop = await shops.start(`http://127.0.0.1:${listening.port}/live/pay`, 30);
      const decisions = {
        page: 'ask-support: another stage 7',
        'another-refund': 'ask-support: another stage 7',
        'declined-refund': 'not-refunded: not refunded 7',
        'two-numbers': 'ask-support: may be processed',
        'not-made': 'ask-support: another stage 7 Failed',
      };
      for (const [client_orderid, decision] of Object.entries(decisions))
        expect(await shop.post('/refund', { client_orderid, orderid: '7' })).toMatch(
          new RegExp(`^${decision}`),
        );
    }, 120_000);

    it('hands on a callback unchanged, and lets the gateway repeat what cannot be verified now', async () => {
      const shop = await shops.start(`http://127.0.0.1:${listening.port}/live/pay`, 30);
      const query = 'status=approved&b=%2b+%20%C3%A9&b=&client_orderid=key-missing&orderid=12&control=0a';
      expect((await get(`${shop.url}/callback?${query}`)).status).toBe(200);
      expect(strange.requests).toMatchObject([
        { path: '/live/pay/verify-callback/login/acme', body: query },
        {
          path: '/live/pay/api/v4/status/1234',
          id: 'key-missing',
          body: expect.not.stringMatching(/(^|&)orderid=/),
        },
      ]);
      for (const id of ['unavailable', 'page', 'busy'])
        expect((await get(`${shop.url}/callback?client_orderid=${id}`)).status).toBe(503);
      expect((await get(`${shop.url}/callback?client_orderid=busy`)).status).toBe(200);
      await until(() => shop.printed.length === 5);
      expect(strange.requests).toHaveLength(8);
      // A shop may print after its response.
      expect(shop.printed.toSorted()).toEqual([
        'key-missing: "key-missing" is ask-support: another amount',
        'unavailable',
        'unavailable',
        'verified: "busy" is not-paid: declined',
        'verified: "busy" is query: no response',
      ]);
    }, 120_000);

    it('goes on querying after a callback if it has the order', async () => {
      const [stranger, shop] = await Promise.all([shops.start(api, 0), shops.start(api, 0)]);
      const [, orderid = ''] = /^ask-support: processing (\d+)$/.exec(await pay(shop, 'processing')) ?? [];
      for (const { url } of [stranger, shop])
        await get(`${url}/callback?${callbackOf('approved', orderid, 'processing')}`);
      const first = 'verified: "processing" is query: processing';
      await until(() => shop.printed.length === 2);
      expect(shop.printed).toEqual([first, 'verified: "processing" is ask-support: processing']);
      expect(stranger.printed).toEqual([first]);
      expect((await idsAt('order-status')).filter((id) => id === 'processing')).toHaveLength(4);
    }, 120_000);
  });
}

function pay(shop: Shop, client_orderid: string): Promise<string> {
  return shop.post('/pay', { client_orderid, amount: '12.50', currency: 'EUR' });
}

const addFault = (fault: object) =>
  post(`${demo.gatewayAdminUrl}/faults`, JSON.stringify(fault), { 'Content-Type': 'application/json' });
const get = (url: string) => post(url, '', {}, { method: 'GET' });

/** What the shop decides about each order. */
async function decide(shop: Shop, orders: readonly string[]): Promise<Record<string, string>> {
  return Object.fromEntries(await Promise.all(orders.map(async (id) => [id, await pay(shop, id)] as const)));
}

/** The parameters of the requests of an operation that the gateway received. */
async function journalOf(operation: string): Promise<Record<string, string>[]> {
  const { body } = await get(`${demo.gatewayAdminUrl}/journal`);
  const { entries }: { entries: { operation: string; parameters: { name: string; value: string }[] }[] } =
    JSON.parse(body);
  return entries
    .filter((entry) => entry.operation === operation)
    .map(({ parameters }) => Object.fromEntries(parameters.map(({ name, value }) => [name, value])));
}

async function idsAt(operation: string): Promise<string[]> {
  return (await journalOf(operation)).map(({ client_orderid = '' }) => client_orderid);
}
