import { describe, expect, it } from '@jest/globals';
import { shownOrderId } from '../../src/gateway/order-id.ts';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import type { ProxyOptions } from '../support/service.ts';

const starts = harness();

const acmeHeader = { 'Countersign-Login': 'acme' };

/** A proxy whose gateway resets each payment, and what it shows of the order of one. */
async function startBroken(options: ProxyOptions = {}) {
  const edge = await starts.edge(options);
  edge.gateway.respond = (response) => void response.destroy();
  return {
    edge,
    shown: async (form: string, path: string = paths.transfer) => {
      const { headers } = await edge.post(path, form);
      const requestId = headers['x-request-id'];
      const lines = await edge.requestLines();
      const { uncertainPayments, findings } = await edge.instanceStatus();
      const line = lines.find((one) => one['requestId'] === requestId);
      const listed = uncertainPayments.find((one) => one.requestId === requestId);
      const [finding] = findings.filter(({ code }) => code === 'outcome-unknown');
      const found = finding?.payments.find((one) => one.requestId === requestId);
      return { line, listed, found, page: await edge.statusPages() };
    },
  };
}

describe('a payment of unknown outcome', () => {
  it('shows its order, caller and time', async () => {
    const { shown } = await startBroken();
    const { line, listed, found, page } = await shown('client-order-id=invoice-7&amount=1');
    const expected = {
      outcome: 'unknown',
      statusPath: '/sandbox/gw/api/v4/status/1234',
      orderId: 'invoice-7',
      caller: 'local',
      operation: 'transfer',
      login: 'acme',
    };
    expect(line).toMatchObject(expected);
    for (const one of [listed, found]) {
      expect(one).toMatchObject(expected);
      expect(Math.abs(Date.parse(String(line?.['time'])) - Date.parse(one?.at ?? ''))).toBeLessThan(1_000);
    }
    expect(page.replaceAll(/<[^>]*>/g, '')).toMatch(
      /\d\d:\d\d:\d\d\.\d+Z transfer order invoice-7 of local, login acme/,
    );
  });

  it('shows the parameter that its operation names', async () => {
    const operations = {
      payout: {
        path: '/api/v4/payout/{endpoint}',
        signature: 'RSA-SHA256' as const,
        loginFrom: 'header' as const,
        orderId: 'payout_ref',
      },
    };
    const { shown } = await startBroken({ config: { operations } });
    const path = '/sandbox/gw/api/v4/payout/1234';
    expect((await shown('payout_ref=p-1&client_orderid=other', path)).line).toMatchObject({ orderId: 'p-1' });
    expect((await shown('client_orderid=other', path)).line).toMatchObject({ orderId: 'other' });
  });

  it('to a group is queried by the group, at the path of the configuration', async () => {
    const route = { signature: 'RSA-SHA256' as const, loginFrom: 'header' as const };
    const operations = {
      'transfer-group': { ...route, path: '/api/v4/transfer/group/{endpointGroup}' },
      'order-status-group': { path: '/api/v5/status/group/{endpointGroup}' },
    };
    const { edge } = await startBroken({ config: { operations } });
    await edge.post('/sandbox/gw/api/v4/transfer/group/7%407', 'client_orderid=a', acmeHeader);
    const [line] = await edge.requestLines();
    expect(line).toMatchObject({ outcome: 'unknown', statusPath: '/sandbox/gw/api/v5/status/group/7%407' });
  });

  it('to an endpoint that may be a card number shows no path', async () => {
    const { edge } = await startBroken();
    await edge.post('/sandbox/gw/api/v4/transfer/4000007711223344', 'client_orderid=a', acmeHeader);
    const [line] = await edge.requestLines();
    expect(line).toMatchObject({ outcome: 'unknown', orderId: 'a' });
    expect(line).not.toHaveProperty('statusPath');
    expect(edge.logText() + (await edge.statusPages())).not.toContain('40000077');
  });
});

describe('an order ID', () => {
  const shown = (id: string) => shownOrderId({}, [['client_orderid', id]]);

  it.each([
    ['a card number', '4000007711223344'],
    ['one in a longer text', 'order 4000007711223344 of today'],
    ['one in groups', '4000 0077 1122 3344'],
    ['one with other separators', '4000/0077:1122+3344'],
    ['an encoded one', '%34%30%30%30007711223344'],
    ['one with hex digits behind it', '4000007711223344a1b2c3d4'],
    ['one among 32 hex digits', 'c0ffee0123ab4000007711223344abcd'],
    ['one among 200 characters', `${'x'.repeat(120)}4000007711223344${'y'.repeat(60)}`],
  ])('that may hold %s is not shown', (_what, id) => {
    expect(shown(id)).toBe('[redacted: looks like a card number]');
  });

  it.each([
    ['order-20261127034652123', 'order-20261127034652123'],
    ['1764215212345678', '1764215212345678'],
    ['0f5a8c1e-93b7-4be2-8a3c-6a8f0d2b7c55', '0f5a8c1e-93b7-4be2-8a3c-6a8f0d2b7c55'],
    ['507f1f77bcf86cd799439011', '507f1f77bcf86cd799439011'],
    ['x'.repeat(200), 'x'.repeat(128)],
    ['заказ-7\u001b[2J', '?????-7?[2J'],
  ])('as programs and people make it is shown, in 128 printable characters: %s', (id, expected) => {
    expect(shown(id)).toBe(expected);
  });
});

it('an order ID is shown of no other request', async () => {
  const edge = await starts.edge();
  await edge.post(paths.transfer, 'client_orderid=invoice-7');
  edge.gateway.respond = (response) => void response.destroy();
  await edge.post(paths.status, 'login=acme&client_orderid=invoice-7');
  await edge.requestLines(2);
  expect(edge.logText()).toMatch(/"outcome":"unknown"/);
  expect(edge.logText() + (await edge.statusPages())).not.toMatch(/invoice-7|statusPath":"/);
});
