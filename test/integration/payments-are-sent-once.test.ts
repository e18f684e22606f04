import { expect, it } from '@jest/globals';
import { type HttpResponse, paths, verdict } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import type { ProxyOptions } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness();
const memory = { payments: { once: { store: 'memory' } } };
const duplicate = '409 duplicate-payment unknown unknown';
const reused = '422 order-id-reused not-sent not-sent';

const start = (options: ProxyOptions = {}): Promise<Edge> => starts.edge({ config: memory, ...options });

const pay = (edge: Edge, form = 'client_orderid=a&amount=1&currency=EUR'): Promise<HttpResponse> =>
  edge.post(paths.transfer, form);

const detailOf = ({ body }: HttpResponse): string => JSON.parse(body).detail;

it('a payment posted twice is sent once, and the second post names the first one and how it ended', async () => {
  const edge = await start();
  const first = await pay(edge);
  expect(first.status).toBe(200);
  // The same parameters in another order, with the other spelling of the order ID, and the login however it comes.
  const others = [
    'currency=EUR&amount=1&client-order-id=a',
    'client_orderid=a&login=acme&amount=1&currency=EUR',
  ];
  for (const form of others) {
    const second = await pay(edge, form);
    expect(verdict(second)).toBe(duplicate);
    expect(detailOf(second)).toContain(`by request ${String(first.headers['x-request-id'])}`);
    expect(detailOf(second)).toContain('the gateway responded with status 200');
    expect(await edge.lineOf(second)).toMatchObject({
      level: 'warn',
      firstRequestId: first.headers['x-request-id'],
      statusPath: '/sandbox/gw/api/v4/status/1234',
    });
  }
  expect(edge.gateway.requests).toHaveLength(1);
  expect((await edge.instanceStatus()).uncertainPayments).toEqual([]);
});

it('a repeat does not wait for the first one', async () => {
  const edge = await start();
  const release = edge.gateway.hold();
  const first = pay(edge);
  await until(() => edge.gateway.requests.length === 1);
  const second = await pay(edge);
  expect(verdict(second)).toBe(duplicate);
  expect(detailOf(second)).toContain('of which no end is known');
  release();
  expect((await first).status).toBe(200);
});

it('the same order ID with another form, or at another endpoint, is another payment, and not sent', async () => {
  const edge = await start();
  await pay(edge);
  for (const form of ['client_orderid=a&amount=2&currency=EUR', 'client_orderid=a&amount=1'])
    expect(verdict(await pay(edge, form))).toBe(reused);
  const elsewhere = paths.transfer.replace('1234', '1235');
  const form = 'client_orderid=a&amount=1&currency=EUR';
  const other = await edge.post(elsewhere, form, { 'Countersign-Login': 'acme' });
  expect(verdict(other)).toBe(reused);
  // The first one is not found there.
  expect(await edge.lineOf(other)).not.toHaveProperty('statusPath');
  expect(edge.gateway.requests).toHaveLength(1);
});

it('after 401 and 403 of the gateway the same payment may be sent again, and after no other status', async () => {
  const edge = await start();
  for (const status of [401, 403, 500, 503, 429, 302, 404]) {
    const form = `client_orderid=order-${status}`;
    edge.gateway.respond = (response) => response.writeHead(status).end();
    expect((await pay(edge, form)).status).toBe(status);
    edge.gateway.respond = (response) => response.end('OK');
    const again = await pay(edge, form);
    if (status !== 401 && status !== 403) expect([status, verdict(again)]).toEqual([status, duplicate]);
    else expect([again.status, verdict(await pay(edge, form))]).toEqual([200, duplicate]);
  }
});

it('a payment that was not sent may be sent again at once; one whose outcome is unknown may not', async () => {
  const edge = await start();
  await edge.gateway.close();
  for (let time = 0; time < 2; time += 1)
    expect(verdict(await pay(edge))).toBe('502 gateway-unreachable not-sent not-sent');
  const lossy = await starts.gateway(
    [
      async ({ request, reset }) => {
        await request();
        reset();
      },
    ],
    undefined,
    Number(new URL(edge.gateway.url).port),
  );
  expect(verdict(await pay(edge))).toBe('502 gateway-reset unknown unknown');
  const repeat = await pay(edge);
  expect(verdict(repeat)).toBe(duplicate);
  expect(detailOf(repeat)).toContain('whose outcome is unknown');
  expect(lossy.requests()).toHaveLength(1);
});

it('any order ID is one, and affects no other one, nor a query', async () => {
  const edge = await start();
  const odd = ['a'.repeat(60_000), '\u0000', '\u202ea', 'а', '../../a', '{"a":1}', 'a\r\nb', 'A', 'a '];
  for (const orderId of [...odd, 'a']) {
    const form = String(new URLSearchParams({ client_orderid: orderId, amount: '1' }));
    expect([orderId, (await pay(edge, form)).status]).toEqual([orderId, 200]);
    expect([orderId, verdict(await pay(edge, form))]).toEqual([orderId, duplicate]);
  }
  for (let repeat = 0; repeat < 3; repeat += 1) expect((await edge.status()).status).toBe(200);
});

it('without payments.once two posts are two payments', async () => {
  const edge = await starts.edge();
  await pay(edge);
  expect((await pay(edge)).status).toBe(200);
  expect(edge.gateway.requests).toHaveLength(2);
});

it('an operation with once needs exactly one order ID', async () => {
  const signed = { signature: 'RSA-SHA256', loginFrom: 'header' } as const;
  const payout = { ...signed, path: '/api/v4/payout/{endpoint}', once: true };
  const edge = await start({ config: { ...memory, operations: { payout } } });
  const post = (form: string) => edge.post('/sandbox/gw/api/v4/payout/1234', form);
  for (const form of ['', 'client_orderid=', 'client_orderid=a&client_orderid=b'])
    expect(verdict(await post(form))).toBe('400 parameter-invalid not-sent not-sent');
  expect((await post('client_orderid=a&client_orderid=a')).status).toBe(200);
  expect(verdict(await post('client_orderid=a'))).toBe(duplicate);
});

it('a reload keeps the store, and says that another one needs a restart', async () => {
  const edge = await start();
  await pay(edge);
  for (const [config, restart] of [
    [memory, []],
    [{}, ['payments.once']],
  ] as const) {
    expect(await edge.reload(config)).toEqual(restart);
    expect(verdict(await pay(edge))).toBe(duplicate);
  }
  expect(edge.gateway.requests).toHaveLength(1);
});

it('a shutdown that cuts off a payment leaves it unknown', async () => {
  const edge = await start({
    config: { ...memory, proxy: { port: 0, timeouts: { shutdown: '100ms', shutdownDelay: '0s' } } },
  });
  const arrived = new Promise<void>((resolve) => {
    edge.gateway.respond = () => resolve();
  });
  const first = pay(edge);
  await arrived;
  const stopped = edge.stop();
  expect(verdict(await first)).toMatch(/unknown unknown$/);
  await stopped;
});
