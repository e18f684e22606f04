import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { publishedOperations } from '../support/scenario.ts';
import { type TestProxy, testPrivateKey } from '../support/service.ts';
import { controlKey, fieldsOf, noon, type TestSimulator } from '../support/simulator.ts';

const starts = harness(afterAll);
let simulator: TestSimulator['simulator'];
let proxy: TestProxy;

beforeAll(async () => {
  const started = await starts.simulator();
  simulator = started.simulator;
  proxy = await starts.proxy({
    gateway: started.url,
    clock: () => noon,
    keys: { acme: { controlKey, privateKey: testPrivateKey } },
    config: { operations: publishedOperations },
    sandbox: { endpoints: { '1234': 'acme', '77': 'acme' } },
  });
});
beforeEach(() => simulator.reset());

const existing = { client_orderid: 'invoice-1', orderid: '900001' };
const values: Readonly<Record<string, string>> = {
  ...existing,
  login: 'acme',
  amount: '10.42',
  currency: 'USD',
  email: 'ada@shop.example',
  'destination-card-ref-id': '17',
  cardrefid: '17',
};
/** By the `type` of the response; of an `order`, the status can be queried. */
const byKind: Readonly<Record<string, string>> = {
  balances: 'endpoint-balance merchant-balance',
  ticket: 'create-ephemeral-ticket',
  order:
    'pan-eligibility-receive transfer-group transfer-by-ref transfer-by-ref-group transfer-form sale payout ' +
    'payout-group payout-by-ref payout-by-ref-group payout-pay payout-pay-group return capture sale-v2 preauth ' +
    'transfer-by-ref-v2',
  'create-card-ref-response': 'create-card-ref create-card-ref-group create-card-ref-v2',
  'status-response': 'status-v2',
  'get-card-info-response': 'card-info',
};
const kinds = Object.fromEntries(
  Object.entries(byKind).flatMap(([kind, names]) => names.split(' ').map((name) => [name, kind])),
);

it('config/operations.yaml has the operations of this test', () => {
  expect(new Set(Object.keys(publishedOperations))).toEqual(new Set(Object.keys(kinds)));
});

/** The parameters that a form needs, but for the login where the header can name it. */
function requiredOf(name: string): string[] {
  const { parameters = {}, control = [], loginFrom } = publishedOperations[name] ?? {};
  const covered = control.filter((part) => !part.startsWith('{') && part !== 'login');
  const names = new Set([...Object.keys(parameters), ...covered]);
  const isRequired = (one: string) =>
    parameters[one]?.required ?? (covered.includes(one) || (one === 'login' && loginFrom === 'body'));
  return [...names].filter(isRequired);
}

const send = (name: string, form: Readonly<Record<string, string>>) => {
  const path = (publishedOperations[name]?.path ?? '')
    .replace('{endpoint}', '1234')
    .replace('{endpointGroup}', '77')
    .replace('{login}', 'acme');
  return post(`${proxy.url}/sandbox/gw${path}`, new URLSearchParams(form).toString());
};
const formOf = (name: string): Record<string, string> => {
  const needed = requiredOf(name).map((one) => [one, values[one] ?? '']);
  const form: Record<string, string> = Object.fromEntries(needed);
  if ('orderid' in form || !('client_orderid' in form)) return form;
  // A new order has an order ID of its own.
  return { ...form, client_orderid: 'new-1', amount: '10.42', currency: 'USD' };
};
const status = async (clientOrderId: string) => {
  const form = new URLSearchParams({ login: 'acme', client_orderid: clientOrderId });
  const { body } = await post(`${proxy.url}/sandbox/gw/api/v4/status/group/77`, form.toString());
  return fieldsOf(body);
};

describe.each(Object.keys(publishedOperations))('%s', (name) => {
  it('is signed as the simulator verifies it, and gets its response', async () => {
    const { status: code, headers, body } = await send(name, formOf(name));
    const end = [code, headers['countersign-outcome'], headers['simulator-rejection']];
    expect(end).toEqual([200, 'answered', undefined]);
    expect(simulator.seen.accepted({ operation: name, login: 'acme' })).toBeGreaterThan(0);
    const kind = kinds[name];
    if (kind === 'balances') expect(JSON.parse(body)).toMatchObject([{ name: 'Main USD' }, {}]);
    else if (kind === 'ticket') expect(fieldsOf(body)).toHaveProperty('ephemeralTicket');
    else expect(fieldsOf(body)['type']).toBe(kind === 'order' ? 'async-response' : kind);
    if (kind !== 'order') return;
    const orderId = fieldsOf(body)['merchant-order-id'] ?? '';
    expect(await status(orderId)).toMatchObject({ status: 'processing', 'merchant-order-id': orderId });
    simulator.clock.offsetSeconds = 1;
    expect(await status(orderId)).toMatchObject({ status: 'approved' });
  });

  it('is sent with either spelling of the order ID', async () => {
    const { client_orderid: orderId, ...others } = formOf(name);
    if (orderId === undefined) return;
    const { body } = await send(name, { ...others, 'client-order-id': orderId });
    expect(fieldsOf(body)['type']).not.toMatch(/error/);
    expect(fieldsOf(body)).toMatchObject({ 'merchant-order-id': orderId });
  });

  it('is not sent without what it requires', async () => {
    for (const missing of requiredOf(name)) {
      const { [missing]: _, ...form } = formOf(name);
      const before = simulator.seen.count({ operation: name });
      const response = await send(name, form);
      const end = [missing, response.status, response.headers['countersign-outcome']];
      expect(end).toEqual([missing, 400, 'not-sent']);
      expect(simulator.seen.count({ operation: name })).toBe(before);
    }
  });

  it('is a payment unless it only reads, claimed by its order ID if it makes an order', () => {
    const reads = ['endpoint-balance', 'merchant-balance', 'status-v2', 'card-info'];
    const makesOrder = kinds[name] === 'order' && !requiredOf(name).includes('orderid');
    const { readOnly = false, once = false } = publishedOperations[name] ?? {};
    expect({ readOnly, once }).toEqual({ readOnly: reads.includes(name), once: makesOrder });
  });
});

it('a return of a part names amount and currency, and one of the whole amount neither', async () => {
  for (const amounts of [{ amount: '0.94', currency: 'USD' }, {}]) {
    const { body } = await send('return', { ...existing, ...amounts });
    expect(fieldsOf(body)).toMatchObject({ type: 'async-response', 'gw-order-id': '900001' });
  }
  expect(simulator.seen.count({ operation: 'return', rejection: 'signature-wrong' })).toBe(0);
});
