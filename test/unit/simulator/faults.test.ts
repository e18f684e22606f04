import { describe, expect, it } from '@jest/globals';
import { FaultRules, faultRule } from '../../../src/simulator/faults.ts';

const rule = (fields: object) => faultRule.parse({ fault: 'reset', ...fields });
const request = (login: string, orderId = 'a') => ({
  login,
  path: {},
  form: [['client_orderid', orderId] as const],
  serialNumber: 'sn',
});

describe('faults', () => {
  it('that are added precede those of the scenario, the oldest first', () => {
    const faults = new FaultRules([rule({ operation: 'transfer' })]);
    faults.add(rule({ login: 'acme', times: 1 }));
    faults.add(rule({ client_orderid: 'a' }));
    const next = () => faults.take('transfer', request('acme'))?.id;
    expect([next(), next()]).toEqual([2, 3]);
    expect(faults.take('transfer', request('beta', 'b'))?.id).toBe(1);
    expect(faults.take('order-status', request('beta', 'b'))).toBeUndefined();
  });

  it('of the scenario that are used up come back with a reset', () => {
    const faults = new FaultRules([rule({ times: 2 })]);
    const next = () => faults.take('transfer', request('acme'))?.remaining;
    expect([next(), next(), next()]).toEqual([2, 1, undefined]);
    faults.reset();
    expect(faults.list()).toEqual([expect.objectContaining({ id: 1, remaining: 2 })]);
  });

  it('are at most a thousand', () => {
    const faults = new FaultRules([]);
    const added = Array.from({ length: 1001 }, () => faults.add(rule({})));
    expect(added.filter((fault) => fault !== undefined)).toHaveLength(1000);
  });
});
