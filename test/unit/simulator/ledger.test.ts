import { describe, expect, it } from '@jest/globals';
import { Ledger, type Order } from '../../../src/simulator/ledger.ts';

const order = (clientOrderId: string) => ({
  login: 'acme',
  endpoint: '1',
  clientOrderId,
  stages: [{ status: 'approved' }],
});
const find = (ledger: Ledger, clientOrderId: string) =>
  ledger.find({ login: 'acme', endpoints: ['1'], clientOrderId });

describe('the ledger', () => {
  it('continues from the highest order ID of the scenario, even beyond the safe integers', () => {
    const { clientOrderId: client_orderid, ...given } = order('a');
    const orders = ['9007199254740993', '7'].map((orderid) => ({ ...given, client_orderid, orderid }));
    const ledger = new Ledger(orders, { orders: 1, responses: 1 });
    expect(ledger.add(order('b')).orderId).toBe('9007199254740994');
  });

  it('keeps added orders up to its capacity, and drops the oldest', () => {
    const ledger = new Ledger([], { orders: 2, responses: 1 });
    const [, second] = ['a', 'b', 'c'].map((id) => ledger.add(order(id)));
    expect(find(ledger, 'a')).toBe('unknown');
    expect(find(ledger, 'b')).toBe(second);
  });

  it('calls a client_orderid ambiguous across all endpoints of the merchant', () => {
    const ledger = new Ledger([], { orders: 2, responses: 1 });
    ledger.add(order('a'));
    ledger.add({ ...order('a'), endpoint: '2' });
    expect(find(ledger, 'a')).toBe('ambiguous');
  });

  it('keeps responses up to its capacity, drops the oldest, and all at a reset', () => {
    const ledger = new Ledger([], { orders: 1, responses: 2 });
    const added: Order = ledger.add(order('a'));
    const [stage = {}] = added.stages;
    for (const serial of ['1', '2', '3']) ledger.recordResponse(serial, added, stage);
    expect(['1', '2', '3'].map((serial) => ledger.stageAt(added, serial))).toEqual([undefined, stage, stage]);
    ledger.reset();
    expect(ledger.stageAt(added, '3')).toBeUndefined();
  });
});
