import { describe, expect, it } from '@jest/globals';
import { FaultRules, faultRule } from '../../../src/simulator/faults.ts';
import { entryOf, Journal, VerificationTrace } from '../../../src/simulator/journal.ts';
import { Ledger } from '../../../src/simulator/ledger.ts';
import { NonceMemory } from '../../../src/simulator/state.ts';

describe('the nonce memory', () => {
  it('recognizes a nonce of a consumer key, however their text is split', () => {
    const nonces = new NonceMemory(10);
    for (const isNew of [true, false]) {
      expect(nonces.remember('a', 'b,c', 1, 0)).toBe(isNew);
      expect(nonces.remember('a,b', 'c', 1, 0)).toBe(isNew);
    }
  });

  it('forgets those past their window, and the oldest beyond its capacity', () => {
    const nonces = new NonceMemory(3);
    for (const second of [1, 2, 3]) nonces.remember('acme', `n${second}`, second, 0);
    const isNew = ['late', 'n3', 'n2', 'n1', 'late'].map((nonce) => nonces.remember('acme', nonce, 9, 3));
    expect(isNew).toEqual([true, false, true, true, true]);
  });
});

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
    const ledger = new Ledger(orders, 1);
    expect(ledger.add(order('b')).orderId).toBe('9007199254740994');
  });

  it('calls a client_orderid ambiguous across all endpoints of the merchant', () => {
    const ledger = new Ledger([], 2);
    ledger.add(order('a'));
    ledger.add({ ...order('a'), endpoint: '2' });
    expect(find(ledger, 'a')).toBe('ambiguous');
  });

  it('keeps orders up to its capacity, drops the oldest, and all at a reset', () => {
    const ledger = new Ledger([], 2);
    const [, second] = ['a', 'b', 'c'].map((id) => ledger.add(order(id)));
    expect(['a', 'b'].map((id) => find(ledger, id))).toEqual(['unknown', second]);
    ledger.reset();
    expect(find(ledger, 'b')).toBe('unknown');
  });
});

const rule = (fields: object) => faultRule.parse({ fault: 'reset', ...fields });
const request = (login: string, orderId = 'a') => ({
  login,
  path: {},
  form: [['client_orderid', orderId] as const],
  serialNumber: 'sn',
});

describe('faults', () => {
  it('that are added precede those of the scenario, the oldest first', () => {
    const [first, second] = [rule({ login: 'acme', times: 1 }), rule({ client_orderid: 'a' })];
    const ofScenario = rule({ operation: 'transfer' });
    const faults = new FaultRules([ofScenario]);
    for (const added of [first, second]) faults.add(added);
    const next = () => faults.take('transfer', request('acme'));
    expect([next(), next()]).toEqual([first, second]);
    expect(faults.take('transfer', request('beta', 'b'))).toBe(ofScenario);
    expect(faults.take('order-status', request('beta', 'b'))).toBeUndefined();
  });

  it('of the scenario that are used up come back with a reset', () => {
    const faults = new FaultRules([rule({ times: 2 })]);
    const next = () => faults.take('transfer', request('acme'))?.times;
    expect([next(), next(), next()]).toEqual([2, 1, undefined]);
    faults.reset();
    expect(faults.list()).toMatchObject([{ times: 2 }]);
  });
});

it('the journal drops the oldest entries, and counts them', () => {
  const journal = new Journal(2);
  for (const status of [200, 403, 500, 502]) {
    const content = { status, type: '', body: '' };
    journal.record(entryOf({ method: 'POST', path: '/' }, new VerificationTrace(), { content }, 0));
  }
  expect(journal.entries().map(({ id, status }) => [id, status])).toEqual([
    [3, 500],
    [4, 502],
  ]);
  expect(journal.total).toBe(4);
});
