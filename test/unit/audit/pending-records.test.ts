import { expect, it } from '@jest/globals';
import { type PendingRecord, PendingRecords } from '../../../src/audit/chain-writer.ts';

const record = (name: string, settle?: (recorded: boolean) => void): PendingRecord => ({
  kind: 'result',
  fields: name.padEnd(100),
  ...(settle === undefined ? {} : { settle }),
});
const namesOf = (records: readonly PendingRecord[]): string[] => records.map(({ fields }) => fields.trim());
const gap = (lost: number): string => `lost ${lost}`;

it('a gap is where the records are missing, before those that follow', () => {
  const pending = new PendingRecords(1_000, gap);
  expect(['a', 'b', 'c'].map((name) => pending.add(record(name)))).toEqual([true, true, false]);
  pending.lose(1);
  pending.lose(2);
  expect(namesOf(pending.take(1))).toEqual(['a']);
  expect(pending.add(record('d'))).toBe(true);
  expect(namesOf(pending.take(10_000))).toEqual(['b', 'lost 3', 'd']);
  expect(pending.size).toBe(0);
});

it('a gap that nothing follows comes last', () => {
  const pending = new PendingRecords(1_000, gap);
  pending.add(record('a'));
  pending.lose(1);
  expect(pending.size).toBe(2);
  expect(namesOf(pending.take(10_000))).toEqual(['a', 'lost 1']);
});

it('records that are put back are first, and take their room', () => {
  const pending = new PendingRecords(1_000, gap);
  pending.add(record('b'));
  pending.addFirst([record('a')]);
  expect(pending.add(record('c'))).toBe(false);
  expect(namesOf(pending.take(10_000))).toEqual(['a', 'b']);
  expect(pending.add(record('c'))).toBe(true);
});

it('records that a request waits for leave their room when they are rejected', () => {
  const pending = new PendingRecords(1_000, gap);
  const results: boolean[] = [];
  pending.add(record('a', (recorded) => results.push(recorded)));
  pending.add(record('b'));
  pending.rejectAwaited();
  expect([results, pending.add(record('c')), namesOf(pending.take(10_000))]).toEqual([
    [false],
    true,
    ['b', 'c'],
  ]);
});
