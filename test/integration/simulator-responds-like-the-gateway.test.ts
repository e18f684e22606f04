import { describe, expect, it } from '@jest/globals';
import type { ListenOptions } from '../../src/simulator/listen.ts';
import { harness } from '../support/harness.ts';
import { loadScenario } from '../support/scenario.ts';
import {
  balanceDraft,
  type Draft,
  fieldsOf,
  noon,
  post,
  shippedScenario,
  statusDraft,
  transferDraft,
} from '../support/simulator.ts';

const starts = harness();

/** Serial numbers count up: sn-1 for the first accepted request. */
async function start(options: Partial<ListenOptions> = {}) {
  let last = 0;
  const serialNumber = () => {
    last += 1;
    return `sn-${last}`;
  };
  const listening = await starts.simulator({ serialNumber, ...options });
  /** Until the orders so far are final. */
  const finish = (): void => {
    listening.simulator.clock.offsetSeconds += 1;
  };
  return { ...listening, finish, send: (draft: Draft) => post(listening.url, draft) };
}

const order = (clientOrderId: string, ...more: (readonly [string, string])[]) =>
  statusDraft([['client_orderid', clientOrderId], ...more]);

describe('a balance query', () => {
  it('without a name gives every balance, amounts with three decimals', async () => {
    const { send } = await start();
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

  it('with a name gives that balance', async () => {
    const { send } = await start();
    const response = await send(balanceDraft([['balance-name', 'Main EUR']]));
    expect(JSON.parse(response.body)).toMatchObject([{ name: 'Main EUR', amount: 980 }]);
  });

  it('with a name that matches none gives an empty array, marked as undocumented', async () => {
    const { send } = await start();
    const response = await send(balanceDraft([['balance-name', 'main eur']]));
    expect([response.status, response.body, response.headers['simulator-undocumented']]).toEqual([
      200,
      '[]',
      'true',
    ]);
  });

  it('returns only the balances of its login', async () => {
    const { send } = await start();
    const response = await send(balanceDraft([], 'beta'));
    expect(JSON.parse(response.body)).toMatchObject([{ name: 'Main GBP', merchantLogin: 'beta' }]);
  });
});

describe('a status query', () => {
  it('gives the order byte for byte: a line feed after each value, spaces as plus signs', async () => {
    const { send } = await start();
    const response = await send(order('invoice-1'));
    expect(response.status).toBe(200);
    expect(response.headers['content-type']).toBe('text/html;charset=utf-8');
    expect(response.headers['simulator-undocumented']).toBeUndefined();
    expect(response.headers['content-length']).toBe(String(Buffer.byteLength(response.body)));
    expect(response.body).toBe(
      'type=status-response\n&serial-number=sn-1\n&merchant-order-id=invoice-1\n&gw-order-id=900001\n' +
        '&status=approved\n&order-stage=transfer_approved\n&amount=10.42\n&initial-amount=10.42\n' +
        '&currency=USD\n&transaction-type=transfer\n&transaction-date=2026-01-15+09%3A30%3A00+UTC\n' +
        '&processor-tx-id=PT-900001\n&approval-code=123456\n&dest-last-four-digits=1111\n' +
        '&dest-card-type=VISA\n&name=Ada+Example\n',
    );
  });

  it('finds an order by either spelling of its ID', async () => {
    const { send, finish } = await start();
    const transfer = await send(transferDraft([['client-order-id', 'spelled-1']]));
    finish();
    expect(fieldsOf(transfer.body)).toMatchObject({ 'merchant-order-id': 'spelled-1' });
    for (const name of ['client_orderid', 'client-order-id']) {
      const response = await send(statusDraft([[name, 'spelled-1']]));
      expect(fieldsOf(response.body)).toMatchObject({ status: 'approved', 'merchant-order-id': 'spelled-1' });
    }
    const unknown = await send(statusDraft([['client-order-id', 'nothing']]));
    expect(fieldsOf(unknown.body)).toMatchObject({ status: 'error', 'merchant-order-id': 'nothing' });
  });

  it('names the order id after the product', async () => {
    const { send } = await start({ scenario: { ...loadScenario(shippedScenario()), product: 'pay' } });
    const response = await send({ ...order('invoice-1'), path: '/pay/api/v4/status/1234' });
    expect(fieldsOf(response.body)).toMatchObject({ 'pay-order-id': '900001' });
  });

  it('gives message and code of an order that was declined', async () => {
    const { send } = await start();
    expect(fieldsOf((await send(order('invoice-2'))).body)).toMatchObject({
      status: 'declined',
      'error-message': 'Declined by the issuer',
      'error-code': '9101',
    });
  });

  it('with an ambiguous client_orderid gives error 124', async () => {
    const { send } = await start();
    const response = await send(order('invoice-4'));
    expect(response.status).toBe(200);
    expect(response.headers['simulator-undocumented']).toBeUndefined();
    expect(response.body).toBe(
      'type=status-response\n&serial-number=sn-1\n&merchant-order-id=invoice-4\n&status=error\n' +
        '&error-message=AMBIGUOUS_CLIENT_ORDER_ID\n&error-code=124\n',
    );
  });

  it('distinguishes orders with the same client_orderid by orderid', async () => {
    const { send } = await start();
    const response = await send(order('invoice-4', ['orderid', '900005']));
    expect(fieldsOf(response.body)).toMatchObject({ status: 'approved', amount: '21.00' });
  });

  it.each([
    ['an unknown client_orderid', order('invoice-0'), '9002'],
    ['an orderid of another order', order('invoice-1', ['orderid', '900002']), '9002'],
    ['an order of another endpoint', order('invoice-3'), '9002'],
    ['a by-request-sn of no request', order('invoice-1', ['by-request-sn', 'x']), '9003'],
    ['no client_orderid', statusDraft([]), '9001'],
  ])('with %s gives an error with status 200, marked as undocumented', async (_, draft, code) => {
    const { send } = await start();
    const response = await send(draft);
    expect([response.status, response.headers['simulator-undocumented']]).toEqual([200, 'true']);
    expect(Object.keys(fieldsOf(response.body))).toEqual([
      'type',
      'serial-number',
      'merchant-order-id',
      'status',
      'error-message',
      'error-code',
    ]);
    expect(fieldsOf(response.body)).toMatchObject({ status: 'error', 'error-code': code });
  });

  it('finds only the orders of its login', async () => {
    const { send } = await start();
    const path = '/gw/api/v4/status/1236';
    const ofBeta = await send(statusDraft([['client_orderid', 'invoice-1']], path, 'beta'));
    expect(fieldsOf(ofBeta.body)).toMatchObject({ 'gw-order-id': '900007' });
    const notOfBeta = await send(statusDraft([['client_orderid', 'invoice-2']], path, 'beta'));
    expect(fieldsOf(notOfBeta.body)).toMatchObject({ status: 'error' });
  });

  it('by group finds the orders of all endpoints of the group', async () => {
    const { send } = await start();
    const inGroup = (group: string, clientOrderId: string) =>
      send(statusDraft([['client_orderid', clientOrderId]], `/gw/api/v4/status/group/${group}`));
    expect(fieldsOf((await inGroup('77', 'invoice-1')).body)).toMatchObject({ status: 'approved' });
    expect(fieldsOf((await inGroup('77', 'invoice-3')).body)).toMatchObject({ status: 'filtered' });
    expect(fieldsOf((await inGroup('78', 'invoice-1')).body)).toMatchObject({ status: 'error' });
  });

  it('gives each request a UUID as serial number', async () => {
    const { url } = await starts.simulator();
    const responses = await Promise.all([1, 2].map(() => post(url, order('invoice-1'))));
    const serials = responses.map(({ body }) => fieldsOf(body)['serial-number']);
    expect(serials[0]).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    expect(serials[0]).not.toBe(serials[1]);
  });
});

describe('by-request-sn', () => {
  const path = '/gw/api/v4/status/1235';
  const invoice5 = (...more: (readonly [string, string])[]) =>
    statusDraft([['client_orderid', 'invoice-5'], ...more], path);
  const firstStage = '00000000-0000-4000-8000-000000000001';

  it('if absent gives the last stage', async () => {
    const { send } = await start();
    const fields = fieldsOf((await send(invoice5())).body);
    expect(fields).toMatchObject({ 'serial-number': 'sn-1', 'transaction-type': 'reversal' });
    expect(fields).not.toHaveProperty('by-request-sn');
  });

  it('of an earlier request gives that stage and is echoed', async () => {
    const { send } = await start();
    const response = await send(invoice5(['by-request-sn', firstStage]));
    expect(response.body).toBe(
      `type=status-response\n&serial-number=sn-1\n&by-request-sn=${firstStage}\n` +
        '&merchant-order-id=invoice-5\n&gw-order-id=900006\n&status=approved\n&amount=30.00\n' +
        '&initial-amount=30.00\n&currency=USD\n&transaction-type=sale\n',
    );
  });

  it('of an earlier status query gives what that one showed', async () => {
    const { send } = await start();
    await send(invoice5(['by-request-sn', firstStage]));
    const response = await send(invoice5(['by-request-sn', 'sn-1']));
    expect(fieldsOf(response.body)).toMatchObject({ 'by-request-sn': 'sn-1', 'transaction-type': 'sale' });
  });

  it('of another order gives an error', async () => {
    const { send } = await start();
    await send(order('invoice-1'));
    const response = await send(invoice5(['by-request-sn', 'sn-1']));
    expect(fieldsOf(response.body)).toMatchObject({ status: 'error', 'error-code': '9003' });
  });
});

describe('a transfer', () => {
  const cardNumber = '4111111111111111';
  const transfer = (clientOrderId: string) =>
    transferDraft([
      ['client_orderid', clientOrderId],
      ['amount', '12.30'],
      ['currency', 'EUR'],
      ['credit_card_number', cardNumber],
      ['destination-card-no', cardNumber],
      ['cvv2', '937'],
      ['card_printed_name', 'ADA EXAMPLE'],
    ]);

  it('gets an async-response without a status', async () => {
    const { send } = await start();
    const response = await send(transfer('t-1'));
    expect(response.headers['simulator-undocumented']).toBeUndefined();
    expect(response.body).toBe(
      'type=async-response\n&serial-number=sn-1\n&merchant-order-id=t-1\n&gw-order-id=900008\n&end-point-id=1234\n',
    );
  });

  it('becomes an order that is processing, then final, without anything of the card', async () => {
    const { send, finish } = await start();
    await send(transfer('t-1'));
    const query = () => send(order('t-1', ['orderid', '900008']));
    expect((await query()).body).toBe(
      'type=status-response\n&serial-number=sn-2\n&merchant-order-id=t-1\n&gw-order-id=900008\n' +
        '&status=processing\n&transaction-type=transfer\n&amount=12.30\n&initial-amount=12.30\n&currency=EUR\n',
    );
    finish();
    expect((await query()).body).toBe(
      'type=status-response\n&serial-number=sn-3\n&merchant-order-id=t-1\n&gw-order-id=900008\n' +
        '&status=approved\n&order-stage=transfer_approved\n&transaction-type=transfer\n&amount=12.30\n' +
        '&initial-amount=12.30\n&currency=EUR\n&transaction-date=2026-01-15+12%3A00%3A01+UTC\n',
    );
  });

  it('can be queried by its serial number', async () => {
    const { send, finish } = await start();
    await send(transfer('t-1'));
    finish();
    const response = await send(order('t-1', ['by-request-sn', 'sn-1']));
    expect(fieldsOf(response.body)).toMatchObject({ 'by-request-sn': 'sn-1', status: 'approved' });
  });

  it.each([
    ['123', 'approved'],
    ['111', 'approved'],
    ['217', 'unknown'],
    ...['101', '116', '119', '209'].map((cvv2) => [cvv2, 'declined'] as const),
  ])('with the CVV2 %s becomes %s', async (cvv2, status) => {
    const { send, finish } = await start();
    await send(
      transferDraft([
        ['client_orderid', 't-1'],
        ['cvv2', cvv2],
      ]),
    );
    finish();
    expect(fieldsOf((await send(order('t-1'))).body)).toMatchObject({ status });
  });

  it('with the CVV2 321 has a 3-D Secure form while it is processing', async () => {
    const { send, finish } = await start();
    await send(
      transferDraft([
        ['client_orderid', 't-1'],
        ['cvv2', '321'],
      ]),
    );
    const shown = async () => fieldsOf((await send(order('t-1'))).body);
    expect(await shown()).toMatchObject({
      status: 'processing',
      html: expect.stringContaining('<form'),
      'redirect-to': 'https://acs.example/',
    });
    finish();
    expect(await shown()).toMatchObject({ status: 'approved' });
    expect(await shown()).not.toHaveProperty('html');
  });

  it('becomes what the scenario says, and is processing or not found until then', async () => {
    let now = noon;
    const { send } = await start({ clock: () => now });
    const ids = ['declined', 'unknown', 'chain-declined', 'processing-at-first', 'found-later', 'ambiguous'];
    for (const id of ids) await send(transfer(id));
    const shown = async (id: string) => {
      const { body, headers } = await send(order(id));
      const { status, 'error-code': code, 'gw-order-id': orderId } = fieldsOf(body);
      const isFound = orderId !== undefined;
      return { id, status, code, isFound, undocumented: headers['simulator-undocumented'] === 'true' };
    };
    const declined = { id: 'declined', status: 'declined', code: '9103', isFound: true, undocumented: false };
    const approved = { status: 'approved', code: undefined, isFound: true, undocumented: false };
    const processing = { status: 'processing', undocumented: false };
    expect(await shown('declined')).toMatchObject(processing);
    expect(await shown('processing-at-first')).toMatchObject(processing);
    expect(await shown('chain-declined')).toMatchObject({ status: 'chain_declined' });
    expect(await shown('found-later')).toMatchObject({ status: 'error', code: '9002', isFound: false });
    expect(await shown('ambiguous')).toMatchObject({ status: 'error', code: '124', isFound: false });
    now += 2_000;
    expect(await shown('declined')).toEqual(declined);
    expect(await shown('unknown')).toMatchObject({ status: 'unknown', code: undefined });
    expect(await shown('chain-declined')).toMatchObject(approved);
    expect(await shown('processing-at-first')).toEqual({ id: 'processing-at-first', ...approved });
    expect(await shown('found-later')).toEqual({ id: 'found-later', ...approved });
  });

  it('that is filtered in the end shows nothing of that while it is processing', async () => {
    let now = noon;
    const rule = 'transfers: [{ client_orderid: t-1, status: filtered, processingSeconds: 2 }]';
    const scenario = loadScenario(`logins: { acme: {} }\nendpoints: ["1234"]\n${rule}`);
    const { send } = await start({ clock: () => now, scenario });
    await send(transfer('t-1'));
    const shown = async () => fieldsOf((await send(order('t-1'))).body);
    const before = await shown();
    expect(before).toMatchObject({ status: 'processing', amount: '12.30' });
    for (const result of ['error-message', 'error-code', 'transaction-date', 'order-stage'])
      expect(before).not.toHaveProperty(result);
    now += 2_000;
    expect(await shown()).toMatchObject({ status: 'filtered', 'error-code': '9103' });
    const again = await send(order('t-1', ['by-request-sn', before['serial-number'] ?? '']));
    expect(fieldsOf(again.body)).toMatchObject({ status: 'processing', amount: '12.30' });
  });

  it('sent twice becomes two orders, and the client_orderid ambiguous', async () => {
    const { send } = await start();
    const ids = [await send(transfer('t-1')), await send(transfer('t-1'))].map(
      ({ body }) => fieldsOf(body)['gw-order-id'],
    );
    expect(ids).toEqual(['900008', '900009']);
    expect(fieldsOf((await send(order('t-1'))).body)).toMatchObject({ 'error-code': '124' });
  });

  const paid = (amount: string, currency: string) =>
    transferDraft([
      ['client_orderid', 't-1'],
      ['amount', amount],
      ['currency', currency],
    ]);

  it.each([
    ['5', 'JPY'],
    ['0.01', 'EUR'],
    ['12.50', 'USD'],
    ['1.234', 'KWD'],
    ['100000000', 'EUR'],
  ])('is made with the amount %s %s', async (amount, currency) => {
    const { send, finish } = await start();
    await send(paid(amount, currency));
    finish();
    expect(fieldsOf((await send(order('t-1'))).body)).toMatchObject({ status: 'approved', amount });
  });

  it.each([
    ['an unknown endpoint', { ...transfer('t-1'), path: '/gw/api/v4/transfer/9' }, '9004'],
    ['no client_orderid', transferDraft([['amount', '1']]), '1'],
    ...['-5', '0', '0.00', '', '1e3', '1,50', '12.345', '12.3456', ' 5', 'five', '+5', '.5'].map(
      (amount) => [`the amount "${amount}"`, paid(amount, 'EUR'), '9005'] as const,
    ),
    ...['EURO', 'eur', 'EU', '', '978', 'E R'].map(
      (currency) => [`the currency "${currency}"`, paid('12.50', currency), '9006'] as const,
    ),
  ])('with %s is an error without a status, and no order', async (_, draft, code) => {
    const { send } = await start();
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
    expect(fieldsOf((await send(order('t-1'))).body)).toMatchObject({ 'error-code': '9002' });
  });
});

it('a pan-eligibility request makes an order, which is polled', async () => {
  const { send, finish } = await start();
  const draft = balanceDraft([
    ['client-order-id', 'p-1'],
    ['sending-card-ref-id', '42'],
  ]);
  const response = await send({ ...draft, path: '/gw/api/v2/pan-eligibility/send/1234' });
  expect(fieldsOf(response.body)).toMatchObject({ type: 'async-response', 'merchant-order-id': 'p-1' });
  finish();
  const status = fieldsOf((await send(statusDraft([['client-order-id', 'p-1']]))).body);
  expect(status).toMatchObject({ status: 'approved', 'merchant-order-id': 'p-1' });
});

it('the Date header follows the given clock', async () => {
  const { send } = await start();
  expect((await send(balanceDraft())).headers['date']).toBe(new Date(noon).toUTCString());
});
