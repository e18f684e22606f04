import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { post } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';

const starts = harness(afterAll);
let edge: Edge;
beforeAll(async () => {
  edge = await starts.edge();
});

const transfer = '/sandbox/gw/api/v4/transfer/1234';
const status = '/sandbox/gw/api/v4/status/1234';
const respondWith = (body: string): void => {
  edge.gateway.respond = (response) => response.setHeader('Content-Type', 'text/html').end(body);
};
const counted = async (operation: string) => {
  const page = await (await fetch(`${edge.adminUrl}/metrics`)).text();
  const series = `countersign_order_mismatches_total{environment="sandbox",operation="${operation}",field="order-id"}`;
  return page
    .split('\n')
    .find((line) => line.startsWith(series))
    ?.slice(series.length + 1);
};

it('a response about another order is forwarded unchanged, and noticed in header, log, metrics and status', async () => {
  const body = 'type=async-response\n&serial-number=1\n&merchant-order-id=a-2\n&gw-order-id=7\n';
  respondWith(body);
  const response = await post(`${edge.url}${transfer}`, 'client_orderid=a-1&amount=1&currency=EUR');
  expect(response).toMatchObject({ status: 200, body });
  expect(response.headers).toMatchObject({
    'countersign-outcome': 'answered',
    'countersign-order-mismatch': 'order-id',
  });
  const lines = await edge.requestLines();
  expect(lines.at(-1)).toMatchObject({ level: 'error', orderMismatch: 'order-id', outcome: 'answered' });
  expect(await counted('transfer')).toBe('1');
  const { findings, orderMismatches } = await edge.instanceStatus();
  expect(orderMismatches).toMatchObject([{ operation: 'transfer', login: 'acme', field: 'order-id' }]);
  expect(findings.map(({ code }) => code)).toContain('order-mismatch');
});

it('so is one in JSON, and one of a query', async () => {
  respondWith('type=status-response\n&merchant-order-id=a-2\n&status=approved\n');
  const response = await post(`${edge.url}${status}`, 'login=acme&client_orderid=a-1', {
    Accept: 'application/json',
  });
  expect(JSON.parse(response.body)).toMatchObject({ status: 'approved' });
  expect(response.headers['countersign-order-mismatch']).toBe('order-id');
  expect(await counted('order-status')).toBe('1');
});

it('a response about the same order is not, whatever header the gateway sends', async () => {
  edge.gateway.respond = (response) =>
    response
      .setHeader('Content-Type', 'text/html')
      .setHeader('Countersign-Order-Mismatch', 'order-id')
      .end('type=async-response\n&merchant-order-id=a+1\n');
  const response = await post(`${edge.url}${transfer}`, 'client_orderid=a%201');
  expect(response.headers).not.toHaveProperty('countersign-order-mismatch');
  expect((await edge.requestLines()).at(-1)).not.toHaveProperty('orderMismatch');
  expect(await counted('transfer')).toBe('1');
});

it('a harmless difference is none, and another amount is a warning', async () => {
  respondWith('type=async-response\n&merchant-order-id=B-1\n&amount=1.00\n&currency=eur\n');
  const form = 'client_orderid=b-1&amount=1&currency=EUR';
  expect((await post(`${edge.url}${transfer}`, form)).headers).not.toHaveProperty(
    'countersign-order-mismatch',
  );
  respondWith('type=async-response\n&merchant-order-id=b-1\n&amount=2\n');
  expect((await post(`${edge.url}${transfer}`, form)).headers['countersign-order-mismatch']).toBe('amount');
  expect((await edge.requestLines()).at(-1)).toMatchObject({ level: 'warn', orderMismatch: 'amount' });
  expect(await counted('transfer')).toBe('1');
});
