import { describe, expect, it } from '@jest/globals';
import { faultNames, faultRow } from '../../faults/fault-table.ts';
import {
  callerKinds,
  faultOfRetry,
  indexOf,
  indexOfTrace,
  operations,
  type PlanOptions,
  sessionsOf,
  traceIdOf,
} from '../../faults/plan.ts';

const options: PlanOptions = { requests: 3_000, seed: 1, only: undefined, caller: undefined, tls: true };

function requestsOf(changes: Partial<PlanOptions> = {}) {
  return [...sessionsOf({ ...options, ...changes })].flatMap(({ requests }) => requests);
}

describe('a plan', () => {
  it('depends only on the seed', () => {
    expect(requestsOf()).toEqual(requestsOf());
    expect(requestsOf({ seed: 2 })).not.toEqual(requestsOf());
    expect(faultOfRetry(1, 'o-1-4', 2)).toBe(faultOfRetry(1, 'o-1-4', 2));
  });

  it('has every request once, with every fault, caller and operation', () => {
    const requests = requestsOf();
    expect(requests.map(({ index }) => index)).toEqual(Array.from({ length: 3_000 }, (_, index) => index));
    expect(new Set(requests.map(({ orderId }) => orderId)).size).toBe(3_000);
    expect(new Set(requests.map(({ fault }) => fault))).toEqual(new Set(faultNames));
    expect(new Set(requests.map(({ caller }) => caller))).toEqual(new Set(callerKinds));
    expect(new Set(requests.map(({ operation }) => operation))).toEqual(new Set(operations));
  });

  it('sends each request to the site of its fault', () => {
    for (const { fault, site } of requestsOf()) {
      expect(faultRow(fault).site ?? expect.stringMatching(/^(plain|secure)$/)).toEqual(site);
    }
  });

  it('can be limited to one fault and one kind of caller', () => {
    const requests = requestsOf({ only: 'surplus-later', caller: 'pipelining' });
    expect(new Set(requests.map(({ fault }) => fault))).toEqual(new Set(['surplus-later', 'good']));
    expect(new Set(requests.map(({ caller }) => caller))).toEqual(new Set(['pipelining']));
  });

  it('needs no TLS where no certificates can be made', () => {
    const sites = new Set(requestsOf({ tls: false }).map(({ site }) => site));
    expect([...sites]).not.toEqual(
      expect.arrayContaining([expect.stringMatching(/secure|wrong-name|tls-cut/)]),
    );
  });

  it('finds a request by its order id and by its trace id', () => {
    expect(indexOf('o-7-42')).toBe(42);
    expect(indexOf('surplus-o-7-42')).toBeUndefined();
    expect(traceIdOf(7, 42)).toMatch(/^[0-9a-f]{32}$/);
    expect(indexOfTrace(traceIdOf(7, 42))).toBe(42);
  });
});
