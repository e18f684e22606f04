import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Secret } from '../../src/secret.ts';
import { harness } from '../support/harness.ts';
import { loadScenario } from '../support/scenario.ts';
import {
  controlKey,
  fieldsOf,
  post,
  send,
  statusDraft,
  type TestSimulator,
  transferDraft,
} from '../support/simulator.ts';
import { until } from '../support/until.ts';

const starts = harness(afterAll);
let simulator: TestSimulator['simulator'];
let url: string;
beforeAll(async () => {
  ({ simulator, url } = await starts.simulator());
});
beforeEach(() => simulator.reset());

const sha1 = (text: string): string => createHash('sha1').update(text).digest('hex');
const whole = 'login=acme&client_orderid=invoice-1&orderid=900001';
const refund = `${whole}&amount=0.94&currency=USD`;
const good = sha1(`acmeinvoice-190000194USD${controlKey}`);

/** Posts a form of a return with this control. */
async function refundWith(form: string, control: string) {
  const body = `${form}&control=${control}`;
  const response = await send(url, { path: '/gw/api/v2/return/1234', authorization: undefined, body });
  const { status, headers } = response;
  return { status, rejection: headers['simulator-rejection'], ...fieldsOf(response.body) };
}

describe('the simulator verifies a control', () => {
  it('of the published example', async () => {
    const key = { controlKeys: [new Secret('B17F59B4-A7DC-41B4-8FF9-37D986B43D20')], publicKeys: [] };
    const scenario = loadScenario(`logins: { beta: {}, acme: {} }\nendpoints: ["1111"]\n`);
    const own = await starts.simulator({ scenario, keys: new Map([['acme', key]]) });
    // printf '%s' '1111902B4FF51042john.smith@gmail.comB17F59B4-A7DC-41B4-8FF9-37D986B43D20' | sha1sum
    const control = 'c6bdd88a78834ef4b863b088827a459f039e8257';
    const form = 'client_orderid=902B4FF5&amount=10.42&currency=USD&email=john.smith%40gmail.com';
    const body = `${form}&control=${control}`;
    const path = '/gw/api/v2/preauth/1111';
    const response = await send(own.url, { path, authorization: undefined, body });
    const made = { type: 'async-response', 'merchant-order-id': '902B4FF5' };
    expect(fieldsOf(response.body)).toMatchObject(made);
    expect(own.simulator.seen.accepted({ operation: 'preauth', login: 'acme' })).toBe(1);
  });

  it('of a return, which is a further stage of its order', async () => {
    const made = { type: 'async-response', 'gw-order-id': '900001' };
    expect(await refundWith(refund, good)).toMatchObject(made);
    const status = async () =>
      fieldsOf((await post(url, statusDraft([['client_orderid', 'invoice-1']]))).body);
    const stage = { 'transaction-type': 'reversal', 'reversal-amount': '0.94' };
    expect(await status()).toMatchObject({ status: 'processing', ...stage });
    simulator.clock.offsetSeconds = 1;
    expect(await status()).toMatchObject({ status: 'approved', amount: '0.94', ...stage });
    simulator.reset();
    expect(await status()).toMatchObject({ 'transaction-type': 'transfer', amount: '10.42' });
  });

  it('of a return of the whole amount, which covers neither amount nor currency', async () => {
    const control = sha1(`acmeinvoice-1900001${controlKey}`);
    expect(await refundWith(whole, control)).toMatchObject({ type: 'async-response' });
  });

  it.each([
    ['another amount', refund.replace('0.94', '9.40'), good, 'signature-wrong'],
    ['no control', refund, '', 'signature-wrong'],
    ['two controls', `${refund}&control=${good}`, good, 'control-missing'],
    ['an unknown login', refund.replace('acme', 'nobody'), good, 'login-unknown'],
  ])(
    '%s is an error with the status 200 that says why, and no refund',
    async (_, form, control, rejection) => {
      expect(await refundWith(form, control)).toEqual({
        status: 200,
        rejection,
        type: 'validation-error',
        'serial-number': expect.any(String),
        'error-message': 'Invalid control',
        'error-code': '9007',
      });
      const [entry] = simulator.journal.entries();
      expect(entry).toMatchObject({ rejection, status: 200 });
      expect(JSON.stringify(entry)).not.toContain(good);
      if (rejection !== 'signature-wrong') return;
      expect(entry?.steps.slice(1)).toMatchObject([
        { step: 'login' },
        { step: 'control-text', controlText: expect.stringMatching(/^acmeinvoice-1900001\d+USD$/) },
        { step: 'signature', result: 'failed', triedKeys: [{ kind: 'control_key', index: 0 }] },
      ]);
    },
  );
});

describe('a callback of the simulator', () => {
  /** A merchant that responds with these statuses, then with 200. */
  async function merchant(...statuses: number[]) {
    const gateway = await starts.recordingGateway();
    gateway.respond = (response) => response.writeHead(statuses.shift() ?? 200, { Location: '/other' }).end();
    const callbacks = () => gateway.requests.map(({ target }) => new URL(target, gateway.url));
    return { ...gateway, callbacks, callbackUrl: `${gateway.url}/callback?shop=1` };
  }
  const transfer = (callback: string, cvv2 = '123') => {
    const form = { client_orderid: 't-1', amount: '12.50', currency: 'EUR', cvv2 };
    return post(url, transferDraft(Object.entries({ ...form, server_callback_url: callback })));
  };

  it('tells of an order that is final by a GET with the control of the published formula', async () => {
    const { requests, callbacks, callbackUrl } = await merchant();
    await transfer(callbackUrl);
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

  it('is repeated until the response is 200, which a redirect is not', async () => {
    const { requests, callbacks, callbackUrl } = await merchant(500, 302);
    await transfer(callbackUrl, '101');
    await until(() => requests.length === 3, 'the third callback', 20);
    const [first, ...others] = callbacks();
    expect(first?.searchParams.get('status')).toBe('declined');
    expect(others).toEqual([first, first]);
  });

  it('is not sent for an order that is not final, beyond loopback, or after a reset', async () => {
    const { requests, callbacks, callbackUrl } = await merchant();
    await transfer(callbackUrl, '217');
    for (const other of ['http://192.0.2.1/', 'https://127.0.0.1/', 'file:///etc/hosts', 'nothing'])
      expect((await transfer(other)).status).toBe(200);
    await transfer(callbackUrl);
    simulator.reset();
    await transfer(`${callbackUrl}&last`);
    await until(() => requests.length > 0);
    expect(callbacks().map(({ searchParams }) => searchParams.has('last'))).toEqual([true]);
  });
});
