import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { harness } from '../support/harness.ts';
import { loadScenario } from '../support/scenario.ts';
import {
  balanceDraft,
  controlKey,
  type Draft,
  fieldsOf,
  noon,
  post,
  shippedScenario,
  statusDraft,
  type TestSimulator,
  transferDraft,
} from '../support/simulator.ts';
import { until } from '../support/until.ts';

const starts = harness(afterAll);

type Fields = Readonly<Record<string, string>>;

let simulator: TestSimulator['simulator'];
let url: string;
/** Serial numbers count up: sn-1 for the first accepted request. */
let serials = 0;
const serialNumber = () => `sn-${++serials}`;

beforeAll(async () => {
  ({ simulator, url } = await starts.simulator({ serialNumber }));
});
beforeEach(() => {
  simulator.reset();
  serials = 0;
});

const send = (draft: Draft) => post(url, draft);
const fieldsFor = async (draft: Draft, at = url): Promise<Fields> => fieldsOf((await post(at, draft)).body);
/** Until the orders so far are final. */
const pass = (seconds = 1): void => {
  simulator.clock.offsetSeconds += seconds;
};

const order = (clientOrderId: string, more: Fields = {}, path = '/gw/api/v4/status/1234', login = 'acme') =>
  statusDraft(Object.entries({ client_orderid: clientOrderId, ...more }), path, login);
const transfer = (fields: Fields = {}, clientOrderId = 't-1') =>
  transferDraft(Object.entries({ client_orderid: clientOrderId, ...fields }));

describe('a balance query', () => {
  it('without a name gives every balance, amounts with three decimals', async () => {
    const response = await send(balanceDraft());
    expect(response.headers['content-type']).toBe('application/json');
    expect(response.headers['simulator-undocumented']).toBeUndefined();
    expect(response.body).toBe(
      '[{"name":"Main USD","amount":12500.500,"online-balance-live-amount":10950.450,' +
        '"total-short-term-hold-amount":300.000,"total-rolling-reserve-amount":1250.050,"currency":"USD",' +
        '"merchantLogin":"acme","amount-buffer-hold":75.250,"externalMerchantIdentifier":null},' +
        '{"name":"Main EUR","amount":980.000,"online-balance-live-amount":882.000,' +
        '"total-short-term-hold-amount":0.000,"total-rolling-reserve-amount":98.000,"currency":"EUR",' +
        '"merchantLogin":"acme","amount-buffer-hold":0.000,"externalMerchantIdentifier":null}]',
    );
  });

  it.each([
    ['a name', balanceDraft([['balance-name', 'Main EUR']]), [{ name: 'Main EUR', amount: 980 }], undefined],
    ['a name that matches none', balanceDraft([['balance-name', 'main eur']]), [], 'true'],
    ['another login', balanceDraft([], 'beta'), [{ name: 'Main GBP', merchantLogin: 'beta' }], undefined],
  ])('with %s gives what it names', async (_, draft, balances, undocumented) => {
    const { status, body, headers } = await send(draft);
    expect([status, headers['simulator-undocumented']]).toEqual([200, undocumented]);
    expect(headers.date).toBe(new Date(noon).toUTCString());
    expect(JSON.parse(body)).toMatchObject(balances);
  });
});

describe('a status query', () => {
  it('gives the order byte for byte: a line feed after each value, spaces as plus signs', async () => {
    const response = await send(order('invoice-1'));
    expect(response.status).toBe(200);
    expect(response.headers['content-type']).toBe('text/html;charset=utf-8');
    expect(response.headers['simulator-undocumented']).toBeUndefined();
    expect(response.body).toBe(
      'type=status-response\n&serial-number=sn-1\n&merchant-order-id=invoice-1\n&gw-order-id=900001\n' +
        '&status=approved\n&order-stage=transfer_approved\n&amount=10.42\n&initial-amount=10.42\n' +
        '&currency=USD\n&transaction-type=transfer\n&transaction-date=2026-01-15+09%3A30%3A00+UTC\n' +
        '&processor-tx-id=PT-900001\n&approval-code=123456\n&dest-last-four-digits=1111\n' +
        '&dest-card-type=VISA\n&name=Ada+Example\n',
    );
  });

  it('names the order id after the product, and gives each request a UUID as serial number', async () => {
    const scenario = { ...loadScenario(shippedScenario()), product: 'pay' };
    const other = await starts.simulator({ scenario });
    const shown = () => fieldsFor(order('invoice-1', {}, '/pay/api/v4/status/1234'), other.url);
    const uuid = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    const first = await shown();
    expect(first).toMatchObject({ 'pay-order-id': '900001', 'serial-number': uuid });
    expect((await shown())['serial-number']).not.toBe(first['serial-number']);
  });

  const declined = { status: 'declined', 'error-message': 'Declined by the issuer', 'error-code': '9101' };
  const approved = { status: 'approved', 'merchant-order-id': 'invoice-1' };
  const [of, group] = ['/gw/api/v4/status/1236', '/gw/api/v4/status/group/'];
  it.each<[string, Draft, Fields]>([
    ['a declined order: its message and code', order('invoice-2'), declined],
    ['an order by the other spelling of its ID', statusDraft([['client-order-id', 'invoice-1']]), approved],
    ['two orders, by orderid', order('invoice-4', { orderid: '900005' }), { amount: '21.00' }],
    ['the order of another login', order('invoice-1', {}, of, 'beta'), { 'gw-order-id': '900007' }],
    ['an order of a group', order('invoice-1', {}, `${group}77`), approved],
    ['no order of another group', order('invoice-1', {}, `${group}78`), { status: 'error' }],
  ])('finds %s', async (_, draft, fields) => {
    expect(await fieldsFor(draft)).toMatchObject(fields);
  });

  it('with an ambiguous client_orderid gives error 124', async () => {
    const response = await send(order('invoice-4'));
    expect(response.status).toBe(200);
    expect(response.headers['simulator-undocumented']).toBeUndefined();
    expect(response.body).toBe(
      'type=status-response\n&serial-number=sn-1\n&merchant-order-id=invoice-4\n&status=error\n' +
        '&error-message=AMBIGUOUS_CLIENT_ORDER_ID\n&error-code=124\n',
    );
  });

  it.each([
    ['an unknown client_orderid', order('invoice-0'), '9002'],
    ['an orderid of another order', order('invoice-1', { orderid: '900002' }), '9002'],
    ['an order of another endpoint', order('invoice-3'), '9002'],
    ['a by-request-sn of no request', order('invoice-1', { 'by-request-sn': 'x' }), '9003'],
    ['no client_orderid', statusDraft([]), '9001'],
  ])('with %s gives an error with status 200, marked as undocumented', async (_, draft, code) => {
    const response = await send(draft);
    expect([response.status, response.headers['simulator-undocumented']]).toEqual([200, 'true']);
    const fields = fieldsOf(response.body);
    expect(Object.keys(fields).join()).toBe(
      'type,serial-number,merchant-order-id,status,error-message,error-code',
    );
    expect(fields).toMatchObject({ status: 'error', 'error-code': code });
  });
});

describe('by-request-sn', () => {
  const invoice5 = (more: Fields = {}) => order('invoice-5', more, '/gw/api/v4/status/1235');
  const firstStage = '00000000-0000-4000-8000-000000000001';

  it('of an earlier request gives that stage and is echoed; without it, the last one', async () => {
    expect((await send(invoice5({ 'by-request-sn': firstStage }))).body).toBe(
      `type=status-response\n&serial-number=sn-1\n&by-request-sn=${firstStage}\n` +
        '&merchant-order-id=invoice-5\n&gw-order-id=900006\n&status=approved\n&amount=30.00\n' +
        '&initial-amount=30.00\n&currency=USD\n&transaction-type=sale\n',
    );
    // Not of another order.
    const other = await fieldsFor(order('invoice-1', { 'by-request-sn': firstStage }));
    expect(other).toMatchObject({ status: 'error', 'error-code': '9003' });
    const last = await fieldsFor(invoice5());
    expect(last).toMatchObject({ 'serial-number': 'sn-3', 'transaction-type': 'reversal' });
    expect(last).not.toHaveProperty('by-request-sn');
  });
});

describe('a transfer', () => {
  const card = '4111111111111111';
  const paid = (amount = '12.30', currency = 'EUR') => transfer({ amount, currency });
  const withCard = transfer({
    amount: '12.30',
    currency: 'EUR',
    credit_card_number: card,
    'destination-card-no': card,
    cvv2: '937',
    card_printed_name: 'ADA EXAMPLE',
  });

  it('gets a response without a status, and becomes an order that is processing, then final, without its card', async () => {
    const response = await send(withCard);
    expect(response.headers['simulator-undocumented']).toBeUndefined();
    expect(response.body).toBe(
      'type=async-response\n&serial-number=sn-1\n&merchant-order-id=t-1\n&gw-order-id=900008\n&end-point-id=1234\n',
    );
    const query = () => send(order('t-1', { orderid: '900008' }));
    expect((await query()).body).toBe(
      'type=status-response\n&serial-number=sn-2\n&merchant-order-id=t-1\n&gw-order-id=900008\n' +
        '&status=processing\n&transaction-type=transfer\n&amount=12.30\n&initial-amount=12.30\n&currency=EUR\n',
    );
    pass();
    expect((await query()).body).toBe(
      'type=status-response\n&serial-number=sn-3\n&merchant-order-id=t-1\n&gw-order-id=900008\n' +
        '&status=approved\n&order-stage=transfer_approved\n&transaction-type=transfer\n&amount=12.30\n' +
        '&initial-amount=12.30\n&currency=EUR\n&transaction-date=2026-01-15+12%3A00%3A01+UTC\n',
    );
    const shown = { 'by-request-sn': 'sn-1', status: 'approved' };
    expect(await fieldsFor(order('t-1', { 'by-request-sn': 'sn-1' }))).toMatchObject(shown);
  });

  it.each([['217', 'unknown'], ...['101', '116', '119', '209'].map((cvv2) => [cvv2, 'declined'] as const)])(
    'with the CVV2 %s becomes %s',
    async (cvv2, status) => {
      await send(transfer({ cvv2 }));
      pass();
      expect(await fieldsFor(order('t-1'))).toMatchObject({ status });
    },
  );

  it('with the CVV2 321 has a 3-D Secure form while it is processing', async () => {
    await send(transfer({ cvv2: '321' }));
    const shown = () => fieldsFor(order('t-1'));
    expect(await shown()).toMatchObject({
      status: 'processing',
      html: expect.stringContaining('<form'),
      'redirect-to': 'https://acs.example/',
    });
    pass();
    expect(await shown()).toMatchObject({ status: 'approved' });
    expect(await shown()).not.toHaveProperty('html');
  });

  it('becomes what the scenario says, and is processing or not found until then', async () => {
    const approved = { status: 'approved', 'gw-order-id': expect.any(String) };
    const notFound = { status: 'error', 'error-code': '9002' };
    const rows: readonly (readonly [id: string, atFirst: object, later: object])[] = [
      ['declined', { status: 'processing' }, { status: 'declined', 'error-code': '9103' }],
      ['chain-declined', { status: 'chain_declined' }, approved],
      ['found-later', notFound, approved],
      ['ambiguous', { 'error-code': '124' }, { 'error-code': '124' }],
    ];
    for (const [id] of rows) await send(transfer({}, id));
    for (const [id, atFirst] of rows) expect(await fieldsFor(order(id))).toMatchObject(atFirst);
    pass(2);
    for (const [id, , later] of rows) expect(await fieldsFor(order(id))).toMatchObject(later);
  });

  it('that is declined in the end shows nothing of that while it is processing', async () => {
    await send(transfer({ amount: '12.30' }, 'declined'));
    const before = await fieldsFor(order('declined'));
    expect(before).toMatchObject({ status: 'processing', amount: '12.30' });
    for (const result of ['error-message', 'error-code', 'transaction-date', 'order-stage'])
      expect(before).not.toHaveProperty(result);
  });

  it('sent twice becomes two orders, and the client_orderid ambiguous', async () => {
    for (const id of ['900008', '900009'])
      expect(await fieldsFor(paid())).toMatchObject({ 'gw-order-id': id });
    expect(await fieldsFor(order('t-1'))).toMatchObject({ 'error-code': '124' });
  });

  it.each([
    ['5', 'JPY'],
    ['0.01', 'EUR'],
    ['1.234', 'KWD'],
  ])('is made with the amount %s %s', async (amount, currency) => {
    await send(paid(amount, currency));
    pass();
    expect(await fieldsFor(order('t-1'))).toMatchObject({ status: 'approved', amount });
  });

  it.each([
    ['an unknown endpoint', { ...paid(), path: '/gw/api/v4/transfer/9' }, '9004'],
    ['no client_orderid', transferDraft([['amount', '1']]), '1'],
    ['an empty client_orderid', transfer({ amount: '1' }, ''), '1'],
    ['no amount', { ...paid(), form: paid().form.filter(([name]) => name !== 'amount') }, '9005'],
    ...['0.00', '', '1e3', '12.345', ' 5', '.5'].map(
      (amount) => [`the amount "${amount}"`, paid(amount, 'EUR'), '9005'] as const,
    ),
    ...['EURO', 'eur', 'EU', ''].map(
      (currency) => [`the currency "${currency}"`, paid('12.50', currency), '9006'] as const,
    ),
  ])('with %s is an error without a status, and no order', async (_, draft, code) => {
    const response = await send(draft);
    expect(response.headers['simulator-undocumented']).toBe(code === '1' ? undefined : 'true');
    const type = code === '9004' ? 'error' : 'validation-error';
    expect(fieldsOf(response.body)).toEqual({
      type,
      'serial-number': 'sn-1',
      'merchant-order-id': expect.any(String),
      'error-message': expect.any(String),
      'error-code': code,
    });
    expect(await fieldsFor(order('t-1'))).toMatchObject({ 'error-code': code === '1' ? '9002' : code });
  });
});

describe('an operation that the scenario adds', () => {
  let own: TestSimulator;
  beforeAll(async () => {
    const added = `
operations:
  refund: { path: "/api/v4/refund/{endpoint}", signature: RSA-SHA256, loginFrom: header }
  refund-all: { path: /api/v4/refund/all, signature: RSA-SHA256, loginFrom: body }
  declined: { path: "/api/v4/declined/{endpoint}", signature: RSA-SHA256, loginFrom: header }
  profile: { path: "/api/v2/profile/{login}", signature: HMAC-SHA1, loginFrom: path, readOnly: true }
  transfer: { path: "/api/v5/transfer/{endpoint}" }
`;
    const responses = '\nresponses:\n  declined: { type: declined, status: declined }\n';
    const text = shippedScenario().replace('\nresponses:\n', responses) + added;
    own = await starts.simulator({ scenario: loadScenario(text), serialNumber: () => 'sn-1' });
  });
  const to = async (path: string, draft: Draft) => {
    const { status, headers, body } = await post(own.url, { ...draft, path: `/gw/api/${path}` });
    const isUndocumented = headers['simulator-undocumented'] === 'true';
    return { status, rejection: headers['simulator-rejection'], isUndocumented, ...fieldsOf(body) };
  };

  const undocumented = { 'serial-number': 'sn-1', isUndocumented: true };
  it.each<[what: string, path: string, draft: Draft, expected: object]>([
    ['an order', 'v4/refund/1234', transfer(), { type: 'async-response', 'merchant-order-id': 't-1' }],
    ['another method than it says', 'v4/refund/1234', balanceDraft(), { rejection: 'method-wrong' }],
    ['its own response', 'v4/declined/1234', transfer(), { ...undocumented, status: 'declined' }],
    [
      'the login of its path',
      'v2/profile/acme',
      balanceDraft(),
      { ...undocumented, type: 'profile-response' },
    ],
    ['another login', 'v2/profile/beta', balanceDraft(), { rejection: 'login-mismatch' }],
    // A literal path precedes one with a placeholder, as in the proxy.
    ['no login in its body', 'v4/refund/all', transfer(), { rejection: 'login-mismatch' }],
    ['a path that it overrides', 'v4/transfer/1234', transfer(), { status: 404 }],
    ['its path in place of a built-in one', 'v5/transfer/1234', transfer(), { type: 'async-response' }],
  ])('has %s', async (_, path, draft, expected) => {
    expect(await to(path, draft)).toMatchObject(expected);
  });
});

describe('a callback of the simulator', () => {
  /** A merchant that responds with these statuses, then with 200. */
  async function merchant(...statuses: number[]) {
    const gateway = await starts.recordingGateway();
    gateway.respond = (response) => response.writeHead(statuses.shift() ?? 200, { Location: '/other' }).end();
    const callbacks = () => gateway.requests.map(({ target }) => new URL(target, gateway.url));
    return { ...gateway, callbacks, callbackUrl: `${gateway.url}/callback?shop=1` };
  }
  const pay = (callback: string, cvv2 = '123') =>
    send(transfer({ amount: '12.50', currency: 'EUR', cvv2, server_callback_url: callback }));

  it('tells of an order that is final by a GET with the control of the published formula', async () => {
    const { requests, callbacks, callbackUrl } = await merchant();
    await pay(callbackUrl);
    expect(requests).toEqual([]);
    await until(() => requests.length > 0);
    const [callback] = callbacks();
    expect([requests[0]?.method, callback?.pathname]).toEqual(['GET', '/callback']);
    // printf '%s' "approved900008t-1$controlKey" | sha1sum
    expect(controlKey).toBe('AF4B7DE6&with=reserved%2B characters');
    expect(Object.fromEntries(callback?.searchParams ?? [])).toEqual({
      shop: '1',
      status: 'approved',
      orderid: '900008',
      client_orderid: 't-1',
      merchant_order: 't-1',
      type: 'transfer',
      amount: '12.50',
      currency: 'EUR',
      control: '8d684f5ec5a754a3705ea16d60cfe47b780a4468',
    });
  });

  it('is repeated until the response is 200, which neither 204 nor a redirect is', async () => {
    const { requests, callbacks, callbackUrl } = await merchant(204, 302);
    await pay(callbackUrl, '101');
    await until(() => requests.length === 3, 'the third callback', 20);
    const [first, ...others] = callbacks();
    expect(first?.searchParams.get('status')).toBe('declined');
    expect(others).toEqual([first, first]);
  });

  it('is not sent for an order that is not final, beyond loopback, or after a reset', async () => {
    const { requests, callbacks, callbackUrl } = await merchant();
    await pay(callbackUrl, '217');
    for (const other of ['http://192.0.2.1/', 'https://127.0.0.1/', 'file:///etc/hosts', 'nothing'])
      await pay(other);
    expect(simulator.journal.entries().filter(({ hint }) => hint?.includes('on loopback'))).toHaveLength(4);
    await pay(callbackUrl);
    simulator.reset();
    await pay(`${callbackUrl}&last`);
    await until(() => requests.length > 0);
    expect(callbacks().map(({ searchParams }) => searchParams.has('last'))).toEqual([true]);
  });
});
