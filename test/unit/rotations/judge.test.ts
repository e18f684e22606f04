import { describe, expect, it } from '@jest/globals';
import { costOf, type Evidence, readsOf, violationsOf } from '../../rotations/judge.ts';
import type { Row, Switch } from '../../rotations/rotation.ts';

const row: Row = {
  number: 1,
  login: 'acme',
  order: 'gateway first',
  gateway: 'plain',
  pause: 5,
  moment: '-',
  switches: 1,
};
/** The gateway has the key at 10 s, Vault at 15 s. */
const gatewayFirst: Switch = { beganAt: 10_000, gatewayAt: 10_000, vaultAt: 15_000 };
const vaultFirst: Switch = { beganAt: 10_000, gatewayAt: 15_000, vaultAt: 10_000 };
const quiet: Evidence = {
  hits: [],
  logs: [],
  transfers: [],
  received: () => 0,
  outages: [],
  instances: 1,
  pause: 0,
  resets: [],
};

const read = (sentAt: number, result: string) => ({ name: 'read acme', sentAt, took: 10, result });
const transfer = (sentAt: number, result: string) => ({ name: 'transfer acme', sentAt, took: 10, result });
/** A line of a transfer that the gateway rejected. */
const rejected = (endedAt: number, keyVersion = 1, status = 403) => ({
  operation: 'transfer',
  login: 'acme',
  caller: 'shop',
  status,
  time: new Date(performance.timeOrigin + endedAt).toISOString(),
  totalMs: 10,
  keyVersion,
});

const fewReads = { average: 1, most: 60, mostAfter: 61 };

function broken(evidence: Partial<Evidence>, one = gatewayFirst): readonly string[] {
  const costs = [costOf(row, [one], { ...quiet, ...evidence })];
  return violationsOf({ costs, reads: fewReads, failedProcesses: 0 });
}

describe('a rotation with the gateway first', () => {
  it('may cost reads until 2 s after Vault has the key', () => {
    expect(broken({ hits: [read(10_100, '403 answered'), read(16_900, '403 answered')] })).toEqual([]);
    expect(broken({ hits: [read(9_000, '403 answered')] })).toEqual([
      'row 1: 1 reads failed: 403 answered in 10 ms, 0.0 s after the start',
    ]);
    expect(broken({ hits: [read(17_100, '403 answered')] })).toEqual([
      'row 1: 1 reads failed: 403 answered in 10 ms, 0.0 s after the start',
      'row 1: a read got 403 2.1 s after Vault had the key',
    ]);
  });

  it('may cost each payment until 2 s after Vault has the key', () => {
    expect(broken({ logs: [[10_000, 10_100, 12_200, 16_300, 16_900].map((at) => rejected(at))] })).toEqual(
      [],
    );
  });

  it('ends 2 s after Vault is back, if it was away', () => {
    const outages = [{ from: 14_500, to: 20_000 }];
    expect(broken({ hits: [read(21_900, '403 answered')], outages })).toEqual([]);
    expect(broken({ hits: [read(22_100, '403 answered')], outages })).toHaveLength(2);
  });

  it('ends after an outage if a process had no request between', () => {
    const outages = [{ from: 19_000, to: 21_000 }];
    const hits = [read(21_900, '403 answered')];
    expect(broken({ hits, outages, pause: 2_500 })).toEqual([]);
    expect(broken({ hits, outages })).toHaveLength(2);
  });

  it('never costs a payment in another way', () => {
    expect(broken({ hits: [transfer(12_000, '504 gateway-timeout')] })).toEqual([
      'row 1: 1 payments failed: 504 gateway-timeout',
    ]);
    expect(broken({ transfers: ['acme-1', 'acme-2', 'acme-1'] })).toEqual([
      'row 1: 1 payments were processed or sent twice',
    ]);
    expect(broken({ received: () => 1 })).toHaveLength(1);
  });
});

describe('a rotation with Vault first', () => {
  it('costs no read', () => {
    expect(broken({ hits: [read(15_100, '403 answered')] }, vaultFirst)).toHaveLength(1);
  });

  const paid = (endedAt: number) => rejected(endedAt, 2, 200);

  it('costs the payments in flight at the first notice of a process and caller, and until its look has ended', () => {
    expect(broken({ logs: [[rejected(15_000), rejected(15_005), paid(15_020)]] }, vaultFirst)).toEqual([]);
    const ofOther = { ...rejected(15_100), caller: 'till' };
    expect(broken({ logs: [[rejected(15_000), paid(15_020), ofOther]] }, vaultFirst)).toEqual([]);
    expect(broken({ logs: [[rejected(15_000), rejected(15_500), paid(15_600)]] }, vaultFirst)).toEqual([]);
  });

  it('costs one payment per step after that', () => {
    const later = (...at: number[]) => [rejected(15_000), paid(15_020), ...at.map((one) => rejected(one))];
    expect(broken({ logs: [later(15_100, 16_200, 18_300)] }, vaultFirst)).toEqual([]);
    const once = ['row 1: 1 payments were rejected once too often'];
    expect(broken({ logs: [later(15_100, 15_900)] }, vaultFirst)).toEqual(once);
    expect(broken({ logs: [later(15_100, 16_200, 17_300)] }, vaultFirst)).toEqual(once);
    expect(broken({ logs: [later(15_100, 15_900)], resets: [15_500] }, vaultFirst)).toEqual([]);
  });
});

it('an instance may read Vault 60 times in a second, and more often right after a disturbance', () => {
  const samples = [
    { at: 1_000, perSecond: 122 },
    { at: 10_000, perSecond: 140 },
    { at: 14_000, perSecond: 60 },
  ];
  const reads = readsOf(samples, [{ from: 5_000, to: 9_000 }], 2);
  expect(reads).toEqual({ average: (61 + 70 + 30) / 3, most: 61, mostAfter: 70 });
  const run = { costs: [], failedProcesses: 0 };
  expect(violationsOf({ ...run, reads })).toEqual(['an instance read Vault 61 times in a second']);
  expect(violationsOf({ ...run, reads: fewReads })).toEqual([]);
});

it('no process may end with an error', () => {
  const run = { costs: [], reads: fewReads, failedProcesses: 1 };
  expect(violationsOf(run)).toEqual(['1 processes ended with an error']);
});

it('a response of a balancer, and a business error as 4xx, is no failure', () => {
  const cost = (gateway: Row['gateway'], result: string) =>
    costOf({ ...row, gateway }, [vaultFirst], { ...quiet, hits: [read(1_000, result)] }).failedReads;
  expect(cost('balancer', '429 answered')).toBe(0);
  expect(cost('balancer', '429 overloaded')).toBe(1);
  expect(cost('4xx', '404 answered')).toBe(0);
  expect(cost('plain', '404 answered')).toBe(1);
});
