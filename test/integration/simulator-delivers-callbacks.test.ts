import { expect, it } from '@jest/globals';
import { harness } from '../support/harness.ts';
import { controlKey, post, transferDraft } from '../support/simulator.ts';
import { until } from '../support/until.ts';

const starts = harness();

/** A merchant that responds with these statuses, then with 200. */
async function merchant(...statuses: number[]) {
  const gateway = await starts.recordingGateway();
  gateway.respond = (response) => response.writeHead(statuses.shift() ?? 200, { Location: '/other' }).end();
  const callbacks = () => gateway.requests.map(({ target }) => new URL(target, gateway.url));
  return { ...gateway, callbacks, callbackUrl: `${gateway.url}/callback?shop=1` };
}

const transfer = (url: string, cvv2 = '123') =>
  transferDraft([
    ['client_orderid', 't-1'],
    ['amount', '12.50'],
    ['currency', 'EUR'],
    ['cvv2', cvv2],
    ['server_callback_url', url],
  ]);

it('an order that is final is told by a GET with the control of the published formula', async () => {
  const { url } = await starts.simulator();
  const { requests, callbacks, callbackUrl } = await merchant();
  await post(url, transfer(callbackUrl));
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
  const { url } = await starts.simulator();
  const { requests, callbacks, callbackUrl } = await merchant(500, 302);
  await post(url, transfer(callbackUrl, '101'));
  await until(() => requests.length === 3, 'the third callback', 20);
  const [first, ...others] = callbacks();
  expect(first?.searchParams.get('status')).toBe('declined');
  expect(others).toEqual([first, first]);
});

it('is not sent for an order that is not final, beyond loopback, or after a reset', async () => {
  const { url, simulator } = await starts.simulator();
  const { requests, callbacks, callbackUrl } = await merchant();
  await post(url, transfer(callbackUrl, '217'));
  for (const other of ['http://192.0.2.1/', 'https://127.0.0.1/', 'file:///etc/hosts', 'nothing'])
    expect((await post(url, transfer(other))).status).toBe(200);
  await post(url, transfer(callbackUrl));
  simulator.reset();
  await post(url, transfer(`${callbackUrl}&last`));
  await until(() => requests.length > 0);
  expect(callbacks().map(({ searchParams }) => searchParams.has('last'))).toEqual([true]);
});
