import { expect, it } from '@jest/globals';
import { post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { alwaysLooking, nextKeys, oldKeys, startRotating } from '../support/rotating.ts';
import { publishedOperations } from '../support/scenario.ts';
import { fieldsOf } from '../support/simulator.ts';
import { until } from '../support/until.ts';

const starts = harness();

/** A service: it has the address of Countersign, a place for callbacks, and nothing else. */
async function startService(proxyUrl: string) {
  const inbox = await starts.recordingGateway();
  const sent: string[] = [];
  const failures: unknown[] = [];
  const call = async (path: string, form: Readonly<Record<string, string>> | string) => {
    const body = new URLSearchParams(form).toString();
    sent.push(body);
    const { status, headers, body: text } = await post(`${proxyUrl}/sandbox/gw${path}`, body);
    if (status !== 200) failures.push({ path, status, headers, text });
    return text;
  };
  return {
    sent,
    failures,
    transfer: async (client_orderid: string) => {
      const amount = { amount: '10.42', currency: 'EUR' };
      const form = { client_orderid, ...amount, server_callback_url: `${inbox.url}/paid` };
      return fieldsOf(await call('/api/v4/transfer/1234', form));
    },
    /** The callback about the order, verified by Countersign. */
    async callback(orderId: string): Promise<unknown> {
      const find = () => inbox.requests.find(({ target }) => target.includes(`client_orderid=${orderId}`));
      await until(() => find() !== undefined, `a callback about ${orderId}`);
      const [, query = ''] = find()?.target.split('?') ?? [];
      return JSON.parse(await call('/verify-callback/1234', query));
    },
    status: async (orderId: string) =>
      fieldsOf(await call('/api/v4/status/1234', { login: 'acme', client_orderid: orderId })),
    balance: async () => JSON.parse(await call('/api/v2/get-balance/manager/acme', '')),
    refund: async (order: Readonly<Record<string, string>>) =>
      fieldsOf(await call('/api/v2/return/1234', { ...order, amount: '0.94', currency: 'EUR' })),
  };
}

it('a service without any secret pays, learns of it, and refunds, while all keys are replaced', async () => {
  const rotating = await startRotating(starts, { config: { operations: publishedOperations } });
  const { proxy, pass, accept, putInSource, simulator } = rotating;
  await proxy.reload({ operations: publishedOperations, keys: alwaysLooking(proxy) });
  const service = await startService(proxy.url);

  const paid = await service.transfer('order-1');
  expect(paid).toMatchObject({ type: 'async-response', 'merchant-order-id': 'order-1' });
  expect(paid).not.toHaveProperty('status');
  expect(await service.callback('order-1')).toMatchObject({ result: 'verified', login: 'acme' });
  pass(1_000);
  expect(await service.status('order-1')).toMatchObject({ status: 'approved' });

  // The rotation: the gateway knows the new keys, Countersign gets them, the gateway drops the old ones.
  accept(oldKeys, nextKeys);
  putInSource(nextKeys);
  expect(await service.transfer('order-2')).toMatchObject({ type: 'async-response' });
  expect(await service.callback('order-2')).toMatchObject({ result: 'verified' });
  await until(() => proxy.logLines('keys updated').length > 0);
  pass(1_000);
  expect(await service.status('order-2')).toMatchObject({ status: 'approved' });
  accept(nextKeys);
  expect(await service.status('order-1')).toMatchObject({ status: 'approved' });
  // A wrong control is no 403: it is a query signed with the control key that finds the new one.
  expect(await service.balance()).toMatchObject([{ name: 'Main USD' }, { name: 'Main EUR' }]);

  const order = { client_orderid: 'order-1', orderid: paid['gw-order-id'] ?? '' };
  expect(await service.refund(order)).toMatchObject({ type: 'async-response', 'gw-order-id': order.orderid });
  pass(1_000);
  const reversal = { status: 'approved', 'transaction-type': 'reversal', 'reversal-amount': '0.94' };
  expect(await service.status('order-1')).toMatchObject(reversal);
  expect(await service.transfer('order-3')).toMatchObject({ type: 'async-response' });
  expect(await service.callback('order-3')).toMatchObject({ result: 'verified' });

  expect(service.failures).toEqual([]);
  expect(simulator.seen.count({ operation: 'return', rejection: 'signature-wrong' })).toBe(0);
  for (const form of service.sent)
    for (const { controlKey } of [oldKeys, nextKeys]) expect(form).not.toContain(controlKey);
});
